//! The bare modelled device: a program's launches on the model and its stock scheduler, without mediator.
//!
//! What a program takes here is its *native* time, which slowdowns are given against. A program is
//! a set of streams, each a closed loop: a fixed number of launches is kept submitted until all are, and the next one
//! follows at the device time at which one ends, so that host code counts as zero, as for a client in lockstep.
//!
//! Rules: kernels are the original ones, whole; a stream is a hardware queue (more streams than queues share them);
//! nothing here depends on the host.

use crate::device::DeviceError;
use gridmux_hw_model::config::GpuConfig;
use gridmux_hw_model::launch::HARDWARE_QUEUES;
use gridmux_hw_model::{
    Copy, CopyEngine, DomainId, Gpu, Kernel, Launch, Level, LoadedModule, QueueId, Report,
};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

/// Device time that passes at most between two looks at what has ended, in cycles; it ends earlier at any report.
const STEP_CYCLES: u64 = 1 << 30;

/// A modelled device with one program on it.
pub struct BareDevice {
    gpu: Gpu,
    domain: DomainId,
    modules: Vec<Arc<LoadedModule>>,
}

/// A stream of a program.
#[derive(Debug, Clone)]
pub struct BareStream {
    /// Its launches.
    pub kernel: Arc<Kernel>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// The parameter block, laid out as the kernel declares it.
    pub params: Vec<u8>,
    /// Device addresses and contents that are copied in again before each launch but the first. A stream that has some
    /// keeps one launch submitted.
    pub restored: Vec<(u64, Vec<u8>)>,
    /// Launches that it keeps submitted, at least 1.
    pub ahead: u32,
    /// Most launches of this stream.
    pub most: u64,
}

/// Times of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BareRun {
    /// When the first launches were submitted, device nanoseconds.
    pub started_ns: u64,
    /// When the last launch ended, device nanoseconds.
    pub last_end_ns: u64,
    /// Launches that ended.
    pub launches: u64,
}

impl BareRun {
    /// Returns the time from the first submission to the last end, in device nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.last_end_ns.saturating_sub(self.started_ns)
    }
}

/// State of a stream under way.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    submitted: u64,
    in_flight: u32,
    /// Copies that its next launch waits for.
    copies: u32,
}

/// The operation behind a tag: a stream's launch, or the copy of one of its restored buffers.
#[derive(Debug, Clone, Copy)]
enum Work {
    Launch(usize),
    Copy(usize, usize),
}

/// A run under way.
struct Loop<'a> {
    device: &'a mut BareDevice,
    streams: &'a [BareStream],
    progress: Vec<Progress>,
    work: HashMap<u64, Work>,
    next_tag: u64,
    /// Launches that no stream has begun.
    unsubmitted: u64,
}

fn backend(error: impl Display) -> DeviceError {
    DeviceError::Backend(error.to_string())
}

impl BareDevice {
    /// Makes the model of a GPU, by the name of its description, with all or some of its SMs, and a program on it that
    /// may hold `memory_bytes`.
    ///
    /// # Errors
    /// An unknown name, or more memory than the host has.
    pub fn open(name: &str, sms: Option<u16>, memory_bytes: u64) -> Result<Self, DeviceError> {
        let full =
            GpuConfig::builtin(name).map_err(|error| DeviceError::NoDevice(error.to_string()))?;
        let config = match sms {
            Some(sms) => full.scaled_to_sms(sms),
            None => full,
        };
        let mut gpu = Gpu::new(config);
        let domain = gpu.memory_mut().create_domain(memory_bytes);
        Ok(Self {
            domain: domain.map_err(backend)?,
            gpu,
            modules: Vec::new(),
        })
    }

    /// Loads a module and returns one of its kernels.
    ///
    /// # Errors
    /// [`DeviceError::Load`]: it is no PTX, has no such kernel, or the model cannot run it.
    pub fn load(&mut self, ptx: &[u8], entry: &str) -> Result<Arc<Kernel>, DeviceError> {
        let load = |error: &dyn Display| DeviceError::Load(error.to_string());
        let module = Module::parse(ptx.to_vec()).map_err(|error| load(&error))?;
        let program = module.decode().map_err(|error| load(&error))?;
        let loaded = self.gpu.load(self.domain, &program, ptx);
        let loaded = loaded.map_err(|error| load(&error))?;
        let kernel = loaded.kernel(entry);
        let kernel = kernel.ok_or_else(|| load(&format!("there is no kernel {entry:?}")))?;
        self.modules.push(loaded);
        Ok(kernel)
    }

    /// Allocates device memory that holds `contents`, and returns its address; no device time passes.
    ///
    /// # Errors
    /// Out of memory.
    pub fn place(&mut self, contents: &[u8]) -> Result<u64, DeviceError> {
        let memory = self.gpu.memory_mut();
        let address = memory
            .alloc(self.domain, contents.len() as u64)
            .map_err(backend)?;
        memory
            .write(self.domain, address, contents)
            .map_err(backend)?;
        Ok(address)
    }

    /// Reads device memory; no device time passes.
    ///
    /// # Errors
    /// Addresses outside the program's allocations.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let memory = self.gpu.memory();
        memory.read(self.domain, address, bytes).map_err(backend)
    }

    /// Runs `launches` launches over the streams, each of which takes the next one as soon as it has room for it;
    /// `progress` hears how many have ended.
    ///
    /// # Errors
    /// A launch that is refused or faults.
    pub fn run(
        &mut self,
        streams: &[BareStream],
        launches: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<BareRun, DeviceError> {
        let started_ns = self.gpu.now_ns().0;
        let mut run = BareRun {
            started_ns,
            last_end_ns: started_ns,
            launches: 0,
        };
        let mut under_way = Loop {
            progress: vec![Progress::default(); streams.len()],
            work: HashMap::new(),
            next_tag: 0,
            unsubmitted: launches,
            streams,
            device: self,
        };
        under_way.submit_more()?;
        let mut reports = Vec::new();
        while !under_way.work.is_empty() {
            let until = Cycles(under_way.device.gpu.now().0.saturating_add(STEP_CYCLES));
            under_way.device.gpu.advance(until, &mut reports);
            for report in reports.drain(..) {
                under_way.follow(report, &mut run)?;
            }
            // All that ended at one instant, before anything is submitted.
            under_way.submit_more()?;
            progress(run.launches);
        }
        Ok(run)
    }
}

impl Loop<'_> {
    fn follow(&mut self, report: Report, run: &mut BareRun) -> Result<(), DeviceError> {
        match report {
            Report::Ended { tag, end, .. } => {
                if let Some(Work::Launch(stream)) = self.work.remove(&tag) {
                    self.progress[stream].in_flight -= 1;
                    run.launches += 1;
                    let end_ns = self.device.gpu.config().cycles_to_ns(end.0);
                    run.last_end_ns = run.last_end_ns.max(end_ns);
                }
            }
            Report::Copied { tag, .. } => {
                if let Some(Work::Copy(stream, place)) = self.work.remove(&tag) {
                    let (address, bytes) = &self.streams[stream].restored[place];
                    let memory = self.device.gpu.memory_mut();
                    let written = memory.write(self.device.domain, *address, bytes);
                    written.map_err(backend)?;
                    self.progress[stream].copies -= 1;
                    if self.progress[stream].copies == 0 {
                        self.launch(stream)?;
                    }
                }
            }
            Report::Faulted { fault, .. } => return Err(backend(fault)),
            Report::Placed { .. } | Report::Retired { .. } => {}
        }
        Ok(())
    }

    /// Lets every stream submit what it has room for, in the order of the streams.
    fn submit_more(&mut self) -> Result<(), DeviceError> {
        for (index, stream) in self.streams.iter().enumerate() {
            let ahead = match stream.restored.is_empty() {
                true => stream.ahead.max(1),
                false => 1,
            };
            while self.progress[index].in_flight < ahead
                && self.progress[index].submitted < stream.most
                && self.unsubmitted > 0
            {
                self.unsubmitted -= 1;
                self.progress[index].in_flight += 1;
                self.progress[index].submitted += 1;
                if self.progress[index].submitted == 1 || stream.restored.is_empty() {
                    self.launch(index)?;
                } else {
                    self.restore(index)?;
                }
            }
        }
        Ok(())
    }

    fn restore(&mut self, index: usize) -> Result<(), DeviceError> {
        for (place, (_, contents)) in self.streams[index].restored.iter().enumerate() {
            let copy = Copy {
                engine: CopyEngine::H2D,
                bytes: contents.len() as u64,
                tag: self.tag(Work::Copy(index, place)),
            };
            self.device.gpu.copy(copy).map_err(backend)?;
            self.progress[index].copies += 1;
        }
        Ok(())
    }

    fn launch(&mut self, index: usize) -> Result<(), DeviceError> {
        let tag = self.tag(Work::Launch(index));
        let stream = &self.streams[index];
        let queue = u8::try_from(index % HARDWARE_QUEUES).unwrap_or(0);
        let launch = Launch {
            queue: QueueId(queue),
            level: Level::LOWEST,
            tag,
            domain: self.device.domain,
            kernel: Arc::clone(&stream.kernel),
            grid: stream.grid,
            block: stream.block,
            dynamic_shared_bytes: stream.dynamic_shared_bytes,
            params: &stream.params,
            budget: None,
        };
        self.device.gpu.launch(launch).map_err(backend)
    }

    fn tag(&mut self, work: Work) -> u64 {
        self.next_tag += 1;
        self.work.insert(self.next_tag, work);
        self.next_tag
    }
}

#[cfg(test)]
mod tests {
    use super::{BareDevice, BareRun, BareStream};

    /// Adds one to the word of its block.
    const ADD: &str = include_str!("add.ptx");

    fn run(streams: usize, ahead: u32, restored: bool) -> (BareRun, Vec<u32>) {
        let mut device = BareDevice::open("h200", Some(2), 1 << 20).unwrap();
        let kernel = device.load(ADD.as_bytes(), "add").unwrap();
        let (contents, mut addresses) = (vec![0; 16], Vec::new());
        let launches = (5 * streams as u64).min(9);
        let streams: Vec<_> = (0..streams)
            .map(|_| {
                let address = device.place(&contents).unwrap();
                addresses.push(address);
                BareStream {
                    kernel: kernel.clone(),
                    grid: [4, 1, 1],
                    block: [1, 1, 1],
                    dynamic_shared_bytes: 0,
                    params: address.to_le_bytes().to_vec(),
                    restored: match restored {
                        true => vec![(address, contents.clone())],
                        false => Vec::new(),
                    },
                    ahead,
                    most: 5,
                }
            })
            .collect();
        let mut heard = 0;
        let run = device
            .run(&streams, launches, |ended| heard = ended)
            .expect("it runs");
        assert_eq!(heard, launches);
        let words = addresses.iter().map(|address| {
            let mut word = [0; 4];
            device.read(address + 12, &mut word).unwrap();
            u32::from_le_bytes(word)
        });
        (run, words.collect())
    }

    #[test]
    fn every_launch_runs_once_and_a_stream_takes_no_more_than_its_most() {
        let (alone, words) = run(2, 1, false);
        assert_eq!((words.iter().sum::<u32>(), alone.launches), (9, 9));
        assert!(words.iter().all(|word| *word <= 5), "{words:?}");
        // One stream, as more of them keep the thread busy that submits, whatever is ahead.
        let ((alone, _), (ahead, _)) = (run(1, 1, false), run(1, 4, false));
        assert!(
            ahead.duration_ns() < alone.duration_ns(),
            "a queue that is kept full does not wait for launches to be made"
        );
    }

    #[test]
    fn what_a_launch_changed_is_restored_before_the_next() {
        let (_, words) = run(2, 1, true);
        assert_eq!(words, [1, 1]);
        let ((restored, _), (plain, _)) = (run(1, 1, true), run(1, 1, false));
        assert!(
            restored.duration_ns() > plain.duration_ns(),
            "copies take device time"
        );
    }
}
