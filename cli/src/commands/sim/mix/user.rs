//! Workloads as members of a mix: traces are read, and kernels of users' PTX files made ready to be loaded.

use super::spec::{Source, Spec, UserKernel};
use crate::commands::sim::loading::{Room, Wanted, fetch, lay_out, memory_bytes, place_all};
use crate::commands::sim::ptx_file::{PtxFile, with_shown_name};
use crate::commands::sim::{Passed, recording};
use crate::failure::Failure;
use crate::files;
use gridmux_hw_model::{Gpu, Partition, QueueId};
use gridmux_mix::model::ModelSubmission;
use gridmux_mix::{self as mix, Member, Pace};
use gridmux_policy::hash::Fnv;
use gridmux_policy::units::Cycles;
use gridmux_ptx::forms::Form;
use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

/// Returns a workload as a member of a mix, and its kernel if that is a user's; a launch of it may take `budget`
/// cycles, and what is drawn follows from the seed and the workload's name.
///
/// # Errors
/// A file that cannot be read, or is no trace, or one without launches.
pub(super) fn member(
    spec: &Spec,
    budget: Cycles,
    seed: u64,
) -> Result<(Member, Option<Rc<FromFile>>), Failure> {
    let mut from_file = None;
    let source = match &spec.source {
        Source::Own { workload, size } => mix::Source::Own {
            workload,
            size: *size,
        },
        Source::ErcBench(kernel) => mix::Source::ErcBench(kernel.clone()),
        Source::Ptx(kernel) => {
            let text = files::bytes(&kernel.file, files::MOST_PTX)?;
            let kernel = Rc::new(FromFile {
                kernel: kernel.clone(),
                code: Fnv::default().bytes(&text).finish(),
                budget,
                loaded: RefCell::new(None),
            });
            from_file = Some(Rc::clone(&kernel));
            mix::Source::User(Box::new(Handle(kernel)))
        }
        Source::Trace { file, arrivals } => {
            let recording = recording(file)?;
            if recording.launches.is_empty() {
                let message = format!(
                    "{} holds no launch that ended in good order",
                    file.display()
                );
                return Err(Failure::new(message).hint("record a program that launches kernels"));
            }
            mix::Source::Recorded {
                recording,
                arrivals: (*arrivals).into(),
            }
        }
    };
    let member = Member {
        name: spec.name.clone(),
        weight: spec.weight,
        class: spec.class,
        source,
        launches: spec.launches,
        pace: match spec.pace {
            Pace::Poisson { mean_ns, .. } => Pace::Poisson {
                mean_ns,
                seed: own_seed(seed, &spec.name),
            },
            pace => pace,
        },
    };
    Ok((member, from_file))
}

/// Returns the seed of a workload, so that each draws numbers of its own, whatever others there are.
fn own_seed(seed: u64, name: &str) -> u64 {
    let hash = Fnv::default().bytes(&seed.to_le_bytes());
    hash.bytes(name.as_bytes()).finish()
}

/// A kernel of a PTX file.
#[derive(Debug)]
pub(super) struct FromFile {
    kernel: UserKernel,
    /// A hash of the file.
    code: u64,
    budget: Cycles,
    /// What was made of its buffers when it was loaded last.
    loaded: RefCell<Option<(Partition, Vec<Wanted>)>>,
}

/// The kernel as a mix holds it.
#[derive(Debug)]
struct Handle(Rc<FromFile>);

impl FromFile {
    /// Writes the buffers that users named files for, as they are in the GPU into which it was loaded last.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn fetch(&self, gpu: &Gpu) -> Result<(), Failure> {
        let loaded = self.loaded.borrow();
        let wanted = loaded.iter().flat_map(|(partition, wanted)| {
            let partition = *partition;
            wanted.iter().map(move |wanted| (partition, wanted))
        });
        for (partition, wanted) in wanted {
            fetch(gpu, partition, wanted)?;
        }
        Ok(())
    }

    fn load(&self, gpu: &mut Gpu, queue: QueueId) -> Result<ModelSubmission, Failure> {
        let kernel = &self.kernel;
        let room = Room::whole(gpu, memory_bytes(&kernel.args))?;
        let mut wanted = Vec::new();
        let values = place_all(gpu, room, &kernel.args, &mut wanted)?;
        let text = PtxFile::read(&kernel.file)?;
        let name = text.kernel(&kernel.entry)?;
        let found = text
            .load(gpu, room, &name)
            .map_err(|failure| with_shown_name(failure, &name))?;
        *self.loaded.borrow_mut() = Some((room.partition, wanted));
        Ok(ModelSubmission {
            queue,
            params: lay_out(&found, &values, Form::WHOLE, "arg=")?,
            kernel: found,
            grid: kernel.grid,
            block: kernel.block,
            dynamic_shared_bytes: kernel.shared,
            budget: Some(self.budget),
        })
    }
}

impl mix::UserKernel for Handle {
    fn load(
        &self,
        gpu: &mut Gpu,
        queue: QueueId,
    ) -> Result<ModelSubmission, Box<dyn Error + Send + Sync>> {
        let loaded = self.0.load(gpu, queue);
        Ok(loaded.map_err(Passed)?)
    }

    fn known_as(&self) -> String {
        format!("{:016x} {}", self.0.code, self.0.kernel.entry)
    }
}
