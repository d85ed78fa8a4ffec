//! A kernel in one of its forms on a modelled GPU.

use gridmux_hw_model::drive::{Happened, Run};
use gridmux_hw_model::{DriveError, Gpu, Partition};
use gridmux_launch::{
    Control, Device, LaunchError, Launcher, Limits, Piece, Progress, RecordedFault, Reservation,
    Sampling, Stamps,
};
use gridmux_ptx::control::COUNTERS_BYTES;
use gridmux_ptx::kernel::Entry;

/// A kernel in a form, with its launches.
#[derive(Debug)]
pub struct Formed {
    /// The kernel's entry in the rewritten module.
    pub entry: Entry,
    /// The launches. Their dynamic shared memory includes the form's own.
    pub run: Run,
    /// Partition of the kernel's memory. Of a form without a fence only the domain is used.
    pub partition: Partition,
    /// Blocks of the original grid.
    pub grid: [u32; 3],
    /// Parameters of the original; the control block comes before them.
    pub params: Vec<u8>,
    /// Device address of the stamps, and the binary logarithm of the blocks of each launch for which one is stamped,
    /// where the entry is stamped and any are wanted.
    pub stamps: Option<(u64, u32)>,
}

impl Formed {
    /// Returns a launcher of the grid.
    ///
    /// # Errors
    /// [`LaunchError`].
    pub fn launcher(&self, limits: Limits) -> Result<Launcher, LaunchError> {
        let reservation = Reservation {
            base: self.partition.base,
            mask: self.partition.mask(),
        };
        Launcher::new(&self.entry, self.grid, limits, Some(reservation))
    }

    /// Returns the GPU as the launcher's device.
    pub fn on<'a>(&'a mut self, gpu: &'a mut Gpu) -> OnModel<'a> {
        OnModel { formed: self, gpu }
    }

    /// Launches the grid and waits for its end; returns the fault that the kernel recorded.
    ///
    /// # Errors
    /// The model's.
    ///
    /// # Panics
    /// If there can be no launcher.
    pub fn launch(
        &mut self,
        gpu: &mut Gpu,
        limits: Limits,
    ) -> Result<Option<RecordedFault>, DriveError> {
        let launcher = self.launcher(limits);
        let mut launcher = launcher.unwrap_or_else(|error| panic!("{error}"));
        gridmux_launch::run(&mut launcher, &mut self.on(gpu))
    }
}

/// A modelled GPU with the launches of one kernel.
#[derive(Debug)]
pub struct OnModel<'a> {
    formed: &'a mut Formed,
    gpu: &'a mut Gpu,
}

impl Device for OnModel<'_> {
    type Error = DriveError;

    fn make_counters(&mut self) -> Result<u64, DriveError> {
        self.formed.run.zeroed(self.gpu, COUNTERS_BYTES)
    }

    fn launch(&mut self, piece: &Piece) -> Result<(), DriveError> {
        let own = &self.formed.params;
        let stamps = self.formed.stamps.and_then(|(address, shift)| {
            let sampling = Sampling::one_in(piece.grid, shift)?;
            Some(Stamps { address, sampling })
        });
        let control = Control {
            stamps,
            ..piece.control
        };
        let params = match self.formed.entry.form().has_control() {
            true => &control.before(own),
            false => own,
        };
        let run = &mut self.formed.run;
        run.submit(self.gpu, piece.number, piece.grid, params)
    }

    fn wait(&mut self) -> Result<Progress, DriveError> {
        self.formed.run.wait(self.gpu).map(progress)
    }

    fn read_counters(&mut self, address: u64) -> Result<[u8; COUNTERS_BYTES as usize], DriveError> {
        let mut counters = [0; COUNTERS_BYTES as usize];
        self.formed.run.read(self.gpu, address, &mut counters)?;
        Ok(counters)
    }
}

/// Returns what the launcher is told of it.
#[must_use]
pub const fn progress(happened: Happened) -> Progress {
    match happened {
        Happened::Placed(number) => Progress::Placed(number),
        Happened::Ended(number) => Progress::Ended(number),
    }
}
