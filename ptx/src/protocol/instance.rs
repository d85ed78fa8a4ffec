//! An instance on a device: drives the host's half of the protocol.
//!
//! [`Gate`] and [`Workers`] say what to write and launch. An [`Instance`] is one of them with its memory's address, and
//! does what it says on a [`Device`], which need only write, read and launch. The caller waits for the ends of
//! launches:
//!
//! ```text
//! write host.memory() to the instance's memory
//! loop {
//!     instance.step(device)
//!     if instance.has_ended() { break }
//!     wait, for the end of a launch if not for long → instance.launch_ended(device, number)
//! }
//! ```
//!
//! Rule: a call that fails has done a part of what it was to do, so that the instance cannot go on; what the device
//! holds is for the caller to end.

use super::{Gate, Workers, Write, worker};
use crate::control::{self, Control};
use crate::forms::fence::{FaultKind, UNKNOWN_BLOCK};
use std::fmt;

/// What runs an instance's launches and holds its memory. Offsets are in bytes from the instance's counters.
pub trait Device {
    /// Why it could not.
    type Error;

    /// Writes a word. Writes arrive in the order in which they are made, and before later launches start.
    ///
    /// # Errors
    /// The device's.
    fn write(&mut self, write: Write) -> Result<(), Self::Error>;

    /// Writes several words, in any order.
    ///
    /// # Errors
    /// The device's.
    fn write_all(&mut self, writes: &[Write]) -> Result<(), Self::Error> {
        writes.iter().try_for_each(|write| self.write(*write))
    }

    /// Reads memory, behind every write that was made.
    ///
    /// # Errors
    /// The device's.
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Self::Error>;

    /// Makes a launch.
    ///
    /// # Errors
    /// The device's.
    fn launch(&mut self, launch: &InstanceLaunch) -> Result<(), Self::Error>;
}

/// A launch of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceLaunch {
    /// For [`Instance::launch_ended`]; the lowest that is not in flight.
    pub number: u32,
    /// Dimensions of the grid.
    pub grid: [u32; 3],
    /// The control block, but for the fence's fields.
    pub control: Control,
}

/// The host's half of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Of a `gate` kernel.
    Gate(Gate),
    /// Of a `worker` kernel, and the control block of all its launches ([`Control::workers`]).
    Workers(Workers, Control),
}

impl Host {
    /// Returns what the instance's memory holds before its first launch.
    #[must_use]
    pub fn memory(&self) -> Vec<u8> {
        match self {
            Self::Gate(gate) => gate.memory(),
            Self::Workers(workers, _) => workers.memory(),
        }
    }
}

/// The first fault that an instance recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedFault {
    /// A [`FaultKind`].
    pub kind: u32,
    /// Line in the original PTX.
    pub line: u32,
    /// The block, counted x fastest.
    pub block: u32,
}

impl fmt::Display for RecordedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match FaultKind::from_number(self.kind) {
            Some(kind) => write!(f, "{}, PTX line {}", kind.name(), self.line)?,
            None => write!(f, "kind {}, PTX line {}", self.kind, self.line)?,
        }
        match self.block {
            UNKNOWN_BLOCK => f.write_str(", in a function"),
            block => write!(f, ", block {block}"),
        }
    }
}

/// An instance: its host's half and where its memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    host: Host,
    counters: u64,
}

impl Instance {
    /// Returns an instance whose memory is at device address `counters`, aligned to 8, and holds [`Host::memory`].
    #[must_use]
    pub fn new(host: Host, counters: u64) -> Self {
        Self { host, counters }
    }

    /// Returns the host's half.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Makes the launches that are to be made now, and looks at the memory if that decides about more.
    ///
    /// # Errors
    /// The device's.
    pub fn step<D: Device>(&mut self, device: &mut D) -> Result<(), D::Error> {
        self.launch_all(device)?;
        if !matches!(&self.host, Host::Workers(workers, _) if workers.wants_observation()) {
            return Ok(());
        }
        self.observe(device)?;
        self.launch_all(device)
    }

    fn launch_all<D: Device>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let counters = self.counters;
        loop {
            let launch = match &mut self.host {
                Host::Gate(gate) => match gate.next_launch() {
                    Some(launch) => gate.launch(&launch, counters),
                    None => return Ok(()),
                },
                Host::Workers(workers, control) => match workers.next_launch() {
                    Some(launch) => {
                        device.write(launch.announce)?;
                        let control = Control {
                            counters,
                            ..*control
                        };
                        InstanceLaunch {
                            number: launch.number,
                            grid: [launch.blocks, 1, 1],
                            control: if launch.dealt {
                                control.dealt(launch.blocks)
                            } else {
                                control
                            },
                        }
                    }
                    None => return Ok(()),
                },
            };
            device.launch(&launch)?;
        }
    }

    fn observe<D: Device>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Host::Workers(workers, _) = &mut self.host else {
            return Ok(());
        };
        let sms = u32::try_from(workers.caps().len()).unwrap_or(u32::MAX);
        let words = words(device, 0, control::instance_bytes(sms) / 4)?;
        let at = |offset: u32| words[offset as usize / 4];
        let members: Vec<u32> = (0..sms)
            .map(|sm| at(control::place_offset(sm) + 4))
            .collect();
        if at(control::FAULT_KIND_AT) != 0 {
            workers.fault_recorded();
        }
        workers.observe(&worker::Observation {
            next: at(control::NEXT_AT),
            placed: at(control::PLACED_AT),
            members: &members,
        });
        Ok(())
    }

    /// Returns all blocks of the launch of that number have left the device.
    ///
    /// # Errors
    /// The device's.
    pub fn launch_ended<D: Device>(&mut self, device: &mut D, number: u32) -> Result<(), D::Error> {
        match &mut self.host {
            Host::Gate(gate) => {
                let fault = recorded_fault(device)?.is_some();
                if gate.launch_ended(number, fault) {
                    // A launch has fewer than 2^32 blocks.
                    let bytes = usize::try_from(gate.table_bytes(number)).unwrap_or(usize::MAX);
                    let mut table = vec![0; bytes];
                    device.read(gate.table_at(number), &mut table)?;
                    gate.observe(number, &table);
                }
            }
            Host::Workers(workers, _) => {
                // Behind the last ticket nobody looks again.
                if recorded_fault(device)?.is_some() {
                    workers.fault_recorded();
                }
                workers.launch_ended(number);
            }
        }
        Ok(())
    }

    /// Stops at block boundaries: nothing starts, what runs goes on to its end.
    ///
    /// # Errors
    /// The device's.
    pub fn stop<D: Device>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let writes = match &mut self.host {
            Host::Gate(gate) => gate.stop().into_iter().collect(),
            Host::Workers(workers, _) => workers.stop(),
        };
        device.write_all(&writes)
    }

    /// Goes on after [`Instance::stop`], at any time.
    ///
    /// # Errors
    /// The device's.
    pub fn resume<D: Device>(&mut self, device: &mut D) -> Result<(), D::Error> {
        match &mut self.host {
            Host::Gate(gate) => {
                let Some(opening) = gate.resume(recorded_fault(device)?.is_some()) else {
                    return Ok(());
                };
                device.write(opening)?;
                let closing = gate.resumed(recorded_fault(device)?.is_some());
                closing.map_or(Ok(()), |write| device.write(write))
            }
            Host::Workers(workers, _) => device.write_all(&workers.resume()),
        }
    }

    /// Changes the caps of workers, one for each SM. A gate has none.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Panics
    /// If the number of SMs differs from the one at the beginning.
    pub fn set_caps<D: Device>(&mut self, device: &mut D, caps: &[u32]) -> Result<(), D::Error> {
        let Host::Workers(workers, _) = &mut self.host else {
            return Ok(());
        };
        device.write_all(&workers.set_caps(caps))
    }

    /// Returns whether nothing of it is on the device.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        match &self.host {
            Host::Gate(gate) => gate.is_idle(),
            Host::Workers(workers, _) => workers.is_idle(),
        }
    }

    /// Returns whether every launch has ended, and every block has run or a fault was recorded.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match &self.host {
            Host::Gate(gate) => gate.has_ended(),
            Host::Workers(workers, _) => workers.has_ended(),
        }
    }

    /// Returns whether it is stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        match &self.host {
            Host::Gate(gate) => gate.is_stopped(),
            Host::Workers(workers, _) => workers.is_stopped(),
        }
    }

    /// Returns whether it ends for a recorded fault, so that not all blocks may have run.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        match &self.host {
            Host::Gate(gate) => gate.is_faulted(),
            Host::Workers(workers, _) => workers.is_faulted(),
        }
    }
}

/// Returns the words of the instance's memory from that offset on.
///
/// # Errors
/// The device's.
pub fn words<D: Device>(device: &mut D, at: u32, count: u32) -> Result<Vec<u32>, D::Error> {
    let mut bytes = vec![0; 4 * count as usize];
    device.read(u64::from(at), &mut bytes)?;
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(bytes.chunks_exact(4).map(word).collect())
}

/// Returns the fault that the instance recorded, if any.
///
/// # Errors
/// The device's.
pub fn recorded_fault<D: Device>(device: &mut D) -> Result<Option<RecordedFault>, D::Error> {
    // The three words stand next to each other.
    let words = words(device, control::FAULT_KIND_AT, 3)?;
    let fault = RecordedFault {
        kind: words[0],
        line: words[1],
        block: words[2],
    };
    Ok((fault.kind != 0).then_some(fault))
}
