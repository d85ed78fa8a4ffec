//! Running one kernel on the model in any of its forms: what the host does for `slice`, `gate`, `worker` and `fence`.
//!
//! A [`FormedKernel`] is a kernel with everything that its launches have in common. A [`Run`] makes these launches and
//! keeps what they did. [`Run::boxes`] covers the grid with sub-boxes (`whole`, `slice`), [`Run::instance`] executes
//! the host's half of a `gate` or of workers ([`gridmux_ptx::protocol`]). Whoever interleaves launches with events of
//! its own uses [`Run::on`], which is a [`Device`](gridmux_ptx::protocol::Device), and [`Run::advance`].
//!
//! Rules: the control block is completed here and nowhere else, with the base and mask of the partition where the form
//! is fenced; the memory of an instance lies in the kernel's domain but outside its partition, as the fence demands; a
//! fault that a fenced kernel records ends the run as an error.

mod run;

pub use run::{On, Pace, Run, Tally};

use crate::config::GpuConfig;
use crate::fault::Fault;
use crate::gpu::RunError;
use crate::kernel::Kernel;
use crate::launch::{Launch, LaunchError, QueueId};
use crate::memory::{MemoryError, Partition};
use crate::occupancy::{Occupancy, occupancy};
use gridmux_policy::units::Cycles;
use gridmux_ptx::boxes::{Grid, SubBox, next_box};
use gridmux_ptx::control::{Control, MAX_TICKETS};
use gridmux_ptx::forms::fence::FenceMode;
use gridmux_ptx::forms::{KernelForm, LaunchGrid};
use gridmux_ptx::protocol::{Gate, Host, Manner, RecordedFault, SpecError, Workers};
use std::sync::Arc;

/// Why a kernel could not be run in its form.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The model refused a launch.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A launch faulted.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// Memory of the instance could not be allocated, read or written.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The gate cannot be made for that grid.
    #[error(transparent)]
    Gate(#[from] SpecError),
    /// Workers count blocks in 31 bits.
    #[error("a grid of {blocks} blocks has more than {MAX_TICKETS}, which workers cannot count")]
    NoTickets {
        /// Blocks of the grid.
        blocks: u64,
    },
    /// The kernel was not rewritten for that kind of launches.
    #[error("kernel '{kernel}' has the form {form}, which is not run as a {asked}")]
    WrongForm {
        /// The kernel.
        kernel: String,
        /// Its form.
        form: &'static str,
        /// `gate` or `worker`.
        asked: &'static str,
    },
    /// The fence was made for partitions of another size.
    #[error("a partition of {bytes} bytes at {base:#x} does not go with a fence of mode {mode:?}")]
    Partition {
        /// First address of the partition.
        base: u64,
        /// Size of the partition in bytes.
        bytes: u64,
        /// Mode of the fence; `None` for a form that has no fence.
        mode: Option<FenceMode>,
    },
    /// A fenced kernel recorded a fault instead of raising it.
    #[error("kernel '{kernel}' recorded a fault: {fault}")]
    Recorded {
        /// The kernel.
        kernel: String,
        /// The first fault.
        fault: RecordedFault,
    },
    /// Launches that are not timed run one block after the other, and blocks of a part of the grid would wait for the
    /// others.
    #[error("a cooperative launch of kernel '{kernel}' is timed and has all blocks of the grid")]
    Cooperative {
        /// The kernel.
        kernel: String,
    },
    /// Nothing is in flight and the kernel has not ended.
    #[error("the model went idle before the kernel ended; this is an error of the model")]
    Idle,
}

impl From<RunError> for DriveError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Launch(error) => Self::Launch(error),
            RunError::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// A kernel in a form, and what all launches of one grid have in common.
#[derive(Debug, Clone)]
pub struct FormedKernel {
    /// The kernel of the rewritten module.
    pub kernel: Arc<Kernel>,
    /// Its form, as the rewrite reported it.
    pub form: KernelForm,
    /// Partition of the tenant. Of a form without a fence only the domain is used.
    pub partition: Partition,
    /// Blocks of the original grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory that the original asks for, in bytes; the form's own is added to it.
    pub dynamic_shared_bytes: u32,
    /// Parameters of the original; the control block is appended to them.
    pub params: Vec<u8>,
    /// Budget of each launch ([`Launch::budget`]).
    pub budget: Option<Cycles>,
}

impl FormedKernel {
    /// Returns the parameter block of a launch with this control block, completed by the fence's fields.
    ///
    /// # Errors
    /// [`DriveError::Partition`].
    pub fn params(&self, control: Control) -> Result<Vec<u8>, DriveError> {
        let mut params = self.params.clone();
        if let Some(at) = self.form.control_offset {
            params.resize(at as usize, 0);
            params.extend(self.fenced(control)?.to_bytes());
        }
        Ok(params)
    }

    fn fenced(&self, control: Control) -> Result<Control, DriveError> {
        if !self.form.form.fenced {
            return Ok(control);
        }
        let Partition { base, bytes, .. } = self.partition;
        let (mode, mask) = (self.form.fence, self.partition.mask());
        match mode.is_some_and(|mode| mode.accepts(base, mask)) {
            true => Ok(Control {
                fence_base: base,
                fence_mask: mask,
                ..control
            }),
            false => Err(DriveError::Partition { base, bytes, mode }),
        }
    }

    /// Returns a launch of `grid` with parameters that [`FormedKernel::params`] made.
    #[must_use]
    pub fn launch<'p>(
        &self,
        (tag, queue): (u64, QueueId),
        grid: [u32; 3],
        params: &'p [u8],
    ) -> Launch<'p> {
        Launch {
            queue,
            tag,
            domain: self.partition.domain,
            kernel: self.kernel.clone(),
            grid,
            block: self.block,
            dynamic_shared_bytes: self.shared_bytes(),
            params,
            budget: self.budget,
        }
    }

    fn shared_bytes(&self) -> u32 {
        let extra = self.form.extra_shared_bytes;
        self.dynamic_shared_bytes.saturating_add(extra)
    }

    /// Returns how many of its blocks an SM can hold.
    #[must_use]
    pub fn occupancy(&self, config: &GpuConfig) -> Occupancy {
        let threads = self.block.iter().fold(1, |n: u32, d| n.saturating_mul(*d));
        occupancy(config, &self.kernel, threads, self.shared_bytes())
    }

    /// Returns the blocks of a wave: as many as reside at once on the whole GPU, at least one.
    #[must_use]
    pub fn wave(&self, config: &GpuConfig) -> u32 {
        let per_sm = self.occupancy(config).blocks_per_sm.max(1);
        per_sm.saturating_mul(u32::from(config.sm.count))
    }

    /// Cuts the grid into sub-boxes of at most `most` blocks, in ascending order; into one box where the form is
    /// launched whole, or the grid cannot be cut.
    pub fn sub_boxes(&self, most: u32) -> impl Iterator<Item = SubBox> + use<> {
        let grid = Grid(self.grid);
        let is_cut = self.form.grid == LaunchGrid::SubBox && grid.is_sliceable();
        let mut next = 0;
        std::iter::from_fn(move || {
            if next >= grid.blocks() {
                return None;
            }
            let part = match is_cut {
                true => next_box(grid, next, most.max(1)),
                false => SubBox {
                    offset: [0; 3],
                    dims: grid.0,
                },
            };
            next = next.saturating_add(part.blocks());
            Some(part)
        })
    }

    /// Returns the host's half of a gate whose launches have at most `window` blocks, `depth` of them at a time.
    ///
    /// # Errors
    /// [`DriveError::WrongForm`], [`DriveError::Gate`].
    pub fn gate(&self, window: u32, depth: u32) -> Result<Host, DriveError> {
        let LaunchGrid::Planes(axis) = self.form.grid else {
            return Err(self.wrong_form("gate"));
        };
        let gate = Gate::new(Grid(self.grid), axis, window, depth)?;
        Ok(Host::Gate(gate))
    }

    /// Returns the host's half of workers, as many as fit on the GPU, that take tickets in this manner; about the last
    /// `singles` blocks go one by one. With `deals`, the first tickets are dealt where the form allows it: only on a
    /// GPU that is empty.
    ///
    /// # Errors
    /// [`DriveError::WrongForm`], [`DriveError::NoTickets`].
    pub fn workers(
        &self,
        config: &GpuConfig,
        manner: Manner,
        singles: u32,
        deals: bool,
    ) -> Result<Host, DriveError> {
        if self.form.grid != LaunchGrid::Workers {
            return Err(self.wrong_form("worker"));
        }
        let most = self.occupancy(config).blocks_per_sm.max(1);
        let caps = vec![most; usize::from(config.sm.count)];
        let apart = self
            .wave(config)
            .checked_next_power_of_two()
            .unwrap_or(1 << 31);
        let chunk = (manner.chunk, apart);
        let control = Control::workers(self.grid, self.block, chunk, singles);
        let workers = control.and_then(|control| Workers::new(control.total, &caps));
        let (Some(control), Some(workers)) = (control, workers) else {
            let blocks = Grid(self.grid).blocks();
            return Err(DriveError::NoTickets { blocks });
        };
        let workers = match deals && self.form.may_deal {
            true => workers.deal(most),
            false => workers,
        };
        Ok(Host::Workers(workers, control.taking(manner.taking)))
    }

    fn wrong_form(&self, asked: &'static str) -> DriveError {
        DriveError::WrongForm {
            kernel: self.kernel.name.to_string(),
            form: self.form.form.name(),
            asked,
        }
    }
}
