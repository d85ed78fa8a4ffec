//! A user's PTX file: its kernels by name, and one of them on a GPU.

use super::loading::Room;
use crate::commands::ptx::{at, parse};
use crate::failure::Failure;
use crate::names;
use anyhow::Context;
use gridmux_hw_model::{Gpu, Kernel};
use gridmux_ptx::decode::{FuncId, Program};
use gridmux_ptx::{Module, ParseError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file, or what a rewrite made of it.
#[derive(Debug)]
pub(super) struct PtxFile {
    file: PathBuf,
    pub(super) module: Module,
    pub(super) program: Program,
    /// Functions that are no PTX, and why.
    malformed: Vec<(FuncId, ParseError)>,
}

impl PtxFile {
    /// Reads and decodes a file.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense as a whole; a function that makes none is noted.
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        Self::of(file, parse(file)?)
    }

    /// Decodes what was made of a file.
    ///
    /// # Errors
    /// As [`PtxFile::read`].
    pub(super) fn of(file: &Path, module: Module) -> Result<Self, Failure> {
        let (program, malformed) = module.decode_each().map_err(|error| at(file, &error))?;
        Ok(Self {
            file: file.to_owned(),
            module,
            program,
            malformed,
        })
    }

    /// Returns the names in the file of its kernels.
    fn kernels(&self) -> Vec<&str> {
        let functions = self.program.functions.iter();
        let kernels = functions.filter(|function| function.is_entry && function.is_defined);
        kernels.map(|kernel| kernel.name.as_str()).collect()
    }

    /// Returns the names of its kernels as their authors wrote them.
    pub(super) fn shown_kernels(&self) -> Vec<String> {
        self.kernels().into_iter().map(names::shown).collect()
    }

    /// Returns the name in the file of the kernel that is asked for by any form of its name.
    ///
    /// # Errors
    /// There is none, or there are several; the error lists them.
    pub(super) fn kernel(&self, asked: &str) -> Result<String, Failure> {
        let kernels = self.kernels();
        if kernels.contains(&asked) {
            return Ok(asked.to_owned());
        }
        let meant = kernels.iter().filter(|name| names::is_meant(asked, name));
        let meant: Vec<&str> = meant.copied().collect();
        let list = |names: &[&str]| {
            let shown = names.iter().map(|name| names::shown(name));
            shown.collect::<Vec<_>>().join("; ")
        };
        let file = self.file.display();
        match meant[..] {
            [one] => Ok(one.to_owned()),
            [] => {
                let failure = Failure::new(format!("{file} has no kernel {asked:?}"));
                Err(match kernels[..] {
                    [] => failure.hint("it has no kernel at all"),
                    _ => failure.hint(format!("it has: {}", list(&kernels))),
                })
            }
            _ => {
                let failure = Failure::new(format!("{file} has several kernels {asked:?}"));
                Err(failure.hint(format!("name one of: {}", list(&meant))))
            }
        }
    }

    /// Loads the module for one of its kernels into the memory of a room; what is wrong with another one does not
    /// matter.
    ///
    /// # Errors
    /// The kernel makes no sense, or the model cannot run it.
    pub(super) fn load(
        &self,
        gpu: &mut Gpu,
        room: Room,
        kernel: &str,
    ) -> Result<Arc<Kernel>, Failure> {
        let of_kernel = |id: &FuncId| self.program.functions[id.0 as usize].name == kernel;
        if let Some((_, error)) = self.malformed.iter().find(|(id, _)| of_kernel(id)) {
            return Err(at(&self.file, error));
        }
        let (partition, text) = (room.partition, (&self.program, self.module.source()));
        let loaded = match room.is_fenced {
            true => gpu.load_one_in(partition, text, kernel),
            false => gpu.load_one(partition.domain, text, kernel),
        };
        let file = self.file.display();
        let loaded = loaded.with_context(|| file.to_string())?;
        let mut refused = loaded.refused().iter();
        if let Some((_, error)) = refused.find(|(name, _)| name == kernel) {
            return Err(Failure::new(format!("{file}: {error}")));
        }
        let found = loaded.kernel(kernel);
        found.ok_or_else(|| Failure::new(format!("{file} has no kernel {kernel:?}")))
    }
}

/// Returns a failure whose text has the name of a kernel as its author wrote it.
pub(super) fn with_shown_name(failure: Failure, kernel: &str) -> Failure {
    let shown = names::shown(kernel);
    match &failure.error {
        Some(error) if shown != kernel => {
            let message = crate::output::causes(error).replace(kernel, &shown);
            Failure {
                hint: failure.hint.map(|hint| hint.replace(kernel, &shown)),
                code: failure.code,
                ..Failure::new(message)
            }
        }
        _ => failure,
    }
}
