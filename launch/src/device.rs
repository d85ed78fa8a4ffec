//! A launcher executed on a device, one action after another.

use crate::control::RecordedFault;
use crate::launcher::{Action, Answer, Launcher, Piece};
use gridmux_ptx::control::COUNTERS_BYTES;
use std::ops::ControlFlow;

/// What happened to a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Every block of the launch of that number has its place on an SM.
    Placed(u32),
    /// The launch of that number has ended.
    Ended(u32),
}

impl From<Progress> for Answer {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::Placed(number) => Self::Placed(number),
            Progress::Ended(number) => Self::Ended(number),
        }
    }
}

/// A device that [`run`] launches a kernel on.
pub trait Device {
    /// What may go wrong.
    type Error;

    /// Allocates counters ([`Action::MakeCounters`]) and returns their device address.
    ///
    /// # Errors
    /// The device's.
    fn make_counters(&mut self) -> Result<u64, Self::Error>;

    /// Makes a launch.
    ///
    /// # Errors
    /// The device's.
    fn launch(&mut self, piece: &Piece) -> Result<(), Self::Error>;

    /// Waits for a launch. A device may leave out that one was placed, where the pace does not ask for it.
    ///
    /// # Errors
    /// The device's.
    fn wait(&mut self) -> Result<Progress, Self::Error>;

    /// Reads the counters at a device address.
    ///
    /// # Errors
    /// The device's.
    fn read_counters(&mut self, address: u64)
    -> Result<[u8; COUNTERS_BYTES as usize], Self::Error>;
}

/// Executes the launcher's next action; breaks with the fault that the kernel recorded when nothing is left to do.
///
/// # Errors
/// The device's.
pub fn step<D: Device>(
    launcher: &mut Launcher,
    device: &mut D,
) -> Result<ControlFlow<Option<RecordedFault>>, D::Error> {
    let answer = match launcher.next_action() {
        Action::MakeCounters => Answer::Counters(device.make_counters()?),
        Action::Launch(piece) => {
            device.launch(&piece)?;
            Answer::Launched(piece)
        }
        Action::ReadCounters(address) => Answer::Read(device.read_counters(address)?),
        Action::Wait => device.wait()?.into(),
        Action::End(fault) => return Ok(ControlFlow::Break(fault)),
    };
    launcher.note(answer);
    Ok(ControlFlow::Continue(()))
}

/// Executes a launcher to its end, and returns the fault that the kernel recorded.
///
/// # Errors
/// The device's.
pub fn run<D: Device>(
    launcher: &mut Launcher,
    device: &mut D,
) -> Result<Option<RecordedFault>, D::Error> {
    loop {
        if let ControlFlow::Break(fault) = step(launcher, device)? {
            return Ok(fault);
        }
    }
}
