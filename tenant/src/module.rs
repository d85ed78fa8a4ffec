//! PTX modules, their kernels and their variables.

use crate::buffer::Buffer;
use crate::error::ClientError;
use crate::link::{LinkRef, unexpected};
use gridmux_channel::control::{
    self, ControlReply, ControlRequest, GlobalInfo, KernelInfo, ModulePart,
};
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::regions::PAGE_BYTES;
use gridmux_channel::session::Session;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The address of a module's texts in the DMA space while it is loaded.
const MODULE_IOVA: u64 = 1 << 40;

/// A loaded module; it is unloaded when it, its kernels and its variables are
/// dropped.
#[derive(Debug)]
pub struct Module {
    loaded: Arc<Loaded>,
}

/// A kernel of a module.
#[derive(Debug, Clone)]
pub struct Kernel {
    loaded: Arc<Loaded>,
    index: usize,
}

/// The part that a module and its kernels share.
#[derive(Debug)]
pub(crate) struct Loaded {
    link: LinkRef,
    module: control::Module,
}

impl Module {
    pub(crate) fn load(link: &LinkRef, parts: &[&[u8]]) -> Result<Self, ClientError> {
        let reply = link.with_session(|session| request_load(session, parts))?;
        let ControlReply::Loaded(module) = reply else {
            return Err(unexpected("LoadModule"));
        };
        Ok(Self {
            loaded: Arc::new(Loaded {
                link: link.clone(),
                module,
            }),
        })
    }

    /// Returns the kernel called `name`.
    ///
    /// # Errors
    /// There is none; the error names those that there are.
    pub fn kernel(&self, name: &str) -> Result<Kernel, ClientError> {
        let kernels = self.kernels();
        match kernels.iter().position(|kernel| kernel.name == name) {
            Some(index) => Ok(Kernel {
                loaded: self.loaded.clone(),
                index,
            }),
            None => {
                let names: Vec<&str> = kernels.iter().map(|kernel| &*kernel.name).collect();
                let available = names.join(", ");
                Err(ClientError::NoKernel {
                    name: name.to_owned(),
                    available,
                })
            }
        }
    }

    /// Returns the variable of module scope (`.global` or `.const`) called `name`, to
    /// be copied to and from; it keeps the module loaded.
    ///
    /// # Errors
    /// There is none; the error names those that there are.
    pub fn global(&self, name: &str) -> Result<Buffer, ClientError> {
        let globals = self.globals();
        match globals.iter().find(|global| global.name == name) {
            Some(global) => Ok(Buffer::variable(
                self.loaded.clone(),
                global.address,
                global.bytes,
            )),
            None => {
                let names: Vec<&str> = globals.iter().map(|global| &*global.name).collect();
                Err(ClientError::NoGlobal {
                    name: name.to_owned(),
                    available: names.join(", "),
                })
            }
        }
    }

    /// Returns the module's variables of module scope.
    #[must_use]
    pub fn globals(&self) -> &[GlobalInfo] {
        &self.loaded.module.globals
    }

    /// Returns whether a function of the module prints ([`crate::Gpu::take_printed`]).
    #[must_use]
    pub fn prints(&self) -> bool {
        self.loaded.module.prints
    }

    /// Returns the module's kernels.
    #[must_use]
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.loaded.module.kernels
    }
}

impl Kernel {
    /// Returns what the kernel takes and uses.
    #[must_use]
    pub fn info(&self) -> &KernelInfo {
        &self.loaded.module.kernels[self.index]
    }

    pub(crate) fn belongs_to(&self, link: &LinkRef) -> bool {
        Arc::ptr_eq(link, &self.loaded.link)
    }
}

/// Puts the texts, one behind the other, into memory of its own, which is
/// mapped only while the mediator reads it.
fn request_load(session: &mut Session, parts: &[&[u8]]) -> Result<ControlReply, ClientError> {
    let len = parts.iter().map(|ptx| ptx.len() as u64).sum::<u64>();
    let size = len.max(1).next_multiple_of(PAGE_BYTES);
    let memfd = SealedMemfd::create("gridmux-module", size)?;
    let file: File = memfd
        .as_fd()
        .try_clone_to_owned()
        .map_err(gridmux_channel::memory::MemoryError::from)?
        .into();
    let mut named = Vec::with_capacity(parts.len());
    let mut offset = 0;
    for ptx in parts {
        file.write_all_at(ptx, offset)
            .map_err(gridmux_channel::memory::MemoryError::from)?;
        named.push(ModulePart {
            iova: MODULE_IOVA + offset,
            len: ptx.len() as u64,
        });
        offset += ptx.len() as u64;
    }
    let readable = Protection::READ;
    session.dma_map(MODULE_IOVA, size, 0, readable, memfd.as_fd())?;
    let reply = session.control(&ControlRequest::LoadModule { parts: named });
    let unmapped = session.dma_unmap(MODULE_IOVA, size);
    let reply = reply?;
    unmapped?;
    Ok(reply)
}

impl Loaded {
    pub(crate) fn link(&self) -> &LinkRef {
        &self.link
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // On a lost connection the mediator has unloaded it already.
        if self.link.drain().is_ok() {
            let _ = self.link.control(&ControlRequest::UnloadModule {
                module: self.module.handle,
            });
        }
    }
}
