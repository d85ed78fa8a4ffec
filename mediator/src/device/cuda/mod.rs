//! An NVIDIA GPU as a device, through its driver.
//!
//! Commands become work in CUDA streams, and an event behind each tells that it has ended ([`flights`]). There is no
//! thread: the dispatcher submits, and asks the events at each poll. The clock is the host's.
//!
//! What a GPU cannot do: kill a kernel ([`Command::Kill`] is ignored; it ends by itself), hold its clock
//! ([`Command::PassTime`] is ignored), or tell of itself where its blocks are: kernels that can be cut stamp some of
//! their blocks ([`stamps`]), and of the others residence is estimated. What it must not be asked while it runs:
//! anything that makes it wait. So memory is cut from a partition per tenant ([`partition`], [`allocator`]), modules
//! are loaded eagerly, and what tenants give up is freed in quiet moments ([`state`]).
//!
//! Rules: the dispatcher's end takes no lock and allocates nothing while nothing fails; it finds kernels, buffers and
//! allocations in tables that the control thread publishes ([`tables`]). Every address and buffer range of a copy is
//! checked against those before the driver sees it; what a *kernel* accesses is not, until it is fenced. An error that
//! poisons the context ends the process ([`lost`]).

mod allocator;
mod arguments;
mod buffer;
mod control;
mod driver;
mod facts;
mod faults;
mod flights;
mod lost;
mod module;
mod partition;
mod queues;
mod stamps;
mod state;
mod tables;

use super::{
    Busy, Command, CopyCommand, Device, DeviceControl, DeviceCopyCommand, DeviceError,
    DeviceReport, Direction, LaunchCommand, MOST_DEPTH, MemsetCommand, Residency,
};
use crate::waker::Waker;
use control::CudaControl;
use driver::Context;
use faults::Faults;
use flights::{Blocks, Flights, Work};
use gridmux_channel::ring::CompletionStatus;
use gridmux_launch::Sampling;
use gridmux_launch::boxes::Grid;
use gridmux_policy::shape::{DeviceShape, Room};
use gridmux_policy::units::Nanos;
use gridmux_sync::publish::Reader;
use partition::Mapper;
use queues::{StreamQueues, since};
use std::sync::Arc;
// Not the shim's: the loom test's device is a scripted one.
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tables::{Keep, KernelEntry, Tables};

/// How often events are asked while something is on the GPU: nobody says when one has happened.
const POLL_EVERY: Duration = Duration::from_micros(50);

/// State that both ends share.
struct Shared {
    context: Context,
    opened: Instant,
    /// Lanes in flight, as bits.
    flying: AtomicU32,
    faults: Arc<Faults>,
}

impl Shared {
    fn now(&self) -> Nanos {
        since(self.opened)
    }
}

/// The dispatcher's end. It belongs to the thread that submits first.
pub struct CudaDevice {
    flights: Flights<StreamQueues>,
    tables: Reader<Tables>,
    shape: DeviceShape,
    levels: u8,
    shared: Arc<Shared>,
}

/// Both ends of a GPU.
pub struct OpenCuda {
    /// For the dispatcher.
    pub device: CudaDevice,
    /// For the control thread.
    pub control: Arc<dyn DeviceControl>,
}

/// Opens a GPU by its number, counted from 0 as `CUDA_VISIBLE_DEVICES` orders them.
///
/// # Errors
/// [`DeviceError::NoDevice`] when there is no driver, no such GPU, or one that cannot be shared;
/// [`DeviceError::Backend`] when the driver fails.
pub fn open(ordinal: &str, waker: &Arc<Waker>) -> Result<OpenCuda, DeviceError> {
    let device = driver::start(ordinal)?;
    let context = Context::retain(device)?;
    let (facts, units) = facts::read(device)?;
    let opened = Instant::now();
    let queues = StreamQueues::new(context, opened)?;
    let levels = queues.levels();
    let mapper = Mapper::new(device)?;
    let faults = Arc::new(Faults::default());
    let shared = Arc::new(Shared {
        context,
        opened,
        flying: AtomicU32::new(0),
        faults: Arc::clone(&faults),
    });
    let shape = facts.shape;
    let (control, tables) =
        CudaControl::new(Arc::clone(&shared), facts, units, mapper, Arc::clone(waker));
    let device = CudaDevice {
        flights: Flights::new(queues, faults, lost::end_process_soon),
        tables,
        shape,
        levels,
        shared,
    };
    Ok(OpenCuda {
        device,
        control: Arc::new(control),
    })
}

impl CudaDevice {
    /// Returns whether the context is lost. Every operation then ends as [`CompletionStatus::DeviceLost`], and the
    /// process ends soon after the last report was taken ([`lost`]).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.flights.is_lost()
    }

    fn launch(&mut self, launch: &LaunchCommand, params: &[u8]) {
        let Self {
            flights,
            tables,
            shape,
            ..
        } = self;
        let kernel = tables.read().kernels.get(&launch.kernel.0);
        let Some(kernel) = kernel.filter(|kernel| kernel.domain == launch.domain) else {
            let text = "the kernel's module was unloaded before the launch started".to_owned();
            return flights.refuse(launch.tag, CompletionStatus::BadKernel, text);
        };
        if !arguments::fit(params, &kernel.places) {
            let text = "the launch's parameters are not those of its kernel".to_owned();
            return flights.refuse(launch.tag, CompletionStatus::Internal, text);
        }
        let work = Work::Launch {
            function: kernel.function,
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            is_cooperative: launch.is_cooperative,
            level: launch.level,
            params,
            places: &kernel.places,
            stamps: kernel
                .stamps
                .then(|| Sampling::of(launch.grid, stamps::RECORDS))
                .flatten(),
        };
        let blocks = Some(blocks_of(launch, kernel, shape));
        let keep = Keep {
            modules: [Some(Arc::clone(&kernel.module)), None],
            buffer: None,
        };
        flights.begin(launch.tag, launch.domain, blocks, &work, keep);
    }

    fn copy(&mut self, copy: &CopyCommand) {
        let Self {
            flights, tables, ..
        } = self;
        match find_copy(tables.read(), copy) {
            Ok((work, keep)) => flights.begin(copy.tag, copy.domain, None, &work, keep),
            Err((status, text)) => flights.refuse(copy.tag, status, text),
        }
    }

    fn device_copy(&mut self, copy: &DeviceCopyCommand) {
        match find_device_copy(self.tables.read(), copy) {
            Ok((work, keep)) => self.flights.begin(copy.tag, copy.domain, None, &work, keep),
            Err((status, text)) => self.flights.refuse(copy.tag, status, text),
        }
    }

    fn fill(&mut self, memset: &MemsetCommand) {
        let MemsetCommand {
            tag,
            domain,
            address,
            bytes,
            rest_bytes,
            value,
            width,
        } = *memset;
        let all = bytes.saturating_add(rest_bytes);
        let Some(place) = self.tables.read().find(domain, address, all) else {
            let text = outside("a fill", address, all);
            return self.flights.refuse(tag, CompletionStatus::BadAddress, text);
        };
        let keep = Keep {
            modules: [place.module(), None],
            buffer: None,
        };
        let work = Work::Fill {
            address,
            bytes,
            value,
            width,
        };
        self.flights.begin(tag, domain, None, &work, keep);
    }

    fn publish_flying(&self) {
        // Release: pairs with the Acquire in `CudaControl::is_quiet`.
        self.shared
            .flying
            .store(self.flights.flying(), Ordering::Release);
    }
}

impl Device for CudaDevice {
    fn submit(&mut self, command: &Command, params: &[u8]) -> Result<(), Busy> {
        let tag = match command {
            Command::Launch(launch) => launch.tag,
            Command::Copy(copy) => copy.tag,
            Command::DeviceCopy(copy) => copy.tag,
            Command::Memset(memset) => memset.tag,
            Command::Kill(_) | Command::PassTime { .. } | Command::Pause => return Ok(()),
        };
        // As the dispatcher keeps it; one more would find the events of another one's slot in use.
        if !self.flights.has_room(tag.lane) {
            return Err(Busy);
        }
        match command {
            Command::Launch(launch) => self.launch(launch, params),
            Command::Copy(copy) => self.copy(copy),
            Command::DeviceCopy(copy) => self.device_copy(copy),
            Command::Memset(memset) => self.fill(memset),
            Command::Kill(_) | Command::PassTime { .. } | Command::Pause => {}
        }
        self.publish_flying();
        Ok(())
    }

    fn poll(&mut self) -> Option<DeviceReport> {
        // Looking at the newest tables gives the old ones back, so that the control thread can free what they hold.
        self.tables.read();
        let before = self.flights.flying();
        let report = self.flights.poll();
        if self.flights.flying() != before {
            self.publish_flying();
        }
        report
    }

    fn residency(&self) -> Residency {
        Residency::Stamped
    }

    fn has_virtual_clock(&self) -> bool {
        false
    }

    fn poll_every(&self) -> Duration {
        POLL_EVERY
    }

    fn lane_depth(&self) -> usize {
        MOST_DEPTH
    }

    fn levels(&self) -> u8 {
        self.levels
    }

    fn now(&self) -> Nanos {
        self.flights.now()
    }
}

/// Returns all blocks of a launch, and those that the device can hold at once.
fn blocks_of(launch: &LaunchCommand, kernel: &KernelEntry, shape: &DeviceShape) -> Blocks {
    // Threads of a block are counted as blocks of a grid are.
    let product = |dims| u32::try_from(Grid(dims).blocks()).unwrap_or(u32::MAX);
    let all = product(launch.grid);
    let block = kernel
        .limits
        .block_shape(product(launch.block), launch.dynamic_shared_bytes);
    let room = Room::empty_sm(shape)
        .fits(&block)
        .saturating_mul(u32::from(shape.sms));
    Blocks {
        all,
        // A block that seems to fit nowhere is the driver's to refuse.
        resident: all.min(room.max(1)),
    }
}

/// Checks a copy and finds its two ends.
fn find_copy(
    tables: &Tables,
    copy: &CopyCommand,
) -> Result<(Work<'static>, Keep), (CompletionStatus, String)> {
    let CopyCommand { address, bytes, .. } = *copy;
    let all = bytes.saturating_add(copy.rest_bytes);
    let place = tables.find(copy.domain, address, all);
    let place = place.ok_or_else(|| {
        let text = outside("a copy", address, all);
        (CompletionStatus::BadAddress, text)
    })?;
    let Some(buffer) = tables.buffers.get(&copy.buffer.0) else {
        let text = "the buffer was unmapped before the copy started".to_owned();
        return Err((CompletionStatus::BadIova, text));
    };
    let Some(host) = buffer.at(copy.buffer_offset, all) else {
        let text = format!(
            "a copy of {all} bytes at offset {:#x} leaves its buffer of {} bytes",
            copy.buffer_offset,
            buffer.len_bytes()
        );
        return Err((CompletionStatus::BadIova, text));
    };
    let work = match copy.direction {
        Direction::ToDevice => Work::ToDevice {
            address,
            host,
            bytes,
        },
        Direction::FromDevice if buffer.is_writable() => Work::FromDevice {
            address,
            host,
            bytes,
        },
        Direction::FromDevice => {
            let text = "the buffer is mapped for reading alone".to_owned();
            return Err((CompletionStatus::BadIova, text));
        }
    };
    let keep = Keep {
        modules: [place.module(), None],
        buffer: Some(Arc::clone(buffer)),
    };
    Ok((work, keep))
}

/// Checks both ends of a copy on the device.
fn find_device_copy(
    tables: &Tables,
    copy: &DeviceCopyCommand,
) -> Result<(Work<'static>, Keep), (CompletionStatus, String)> {
    let DeviceCopyCommand {
        from, to, bytes, ..
    } = *copy;
    let all = bytes.saturating_add(copy.rest_bytes);
    let module = |address| {
        let place = tables.find(copy.domain, address, all);
        let place = place.ok_or_else(|| {
            let text = outside("a copy", address, all);
            (CompletionStatus::BadAddress, text)
        });
        place.map(tables::AddressOwner::module)
    };
    let keep = Keep {
        modules: [module(from)?, module(to)?],
        buffer: None,
    };
    Ok((Work::OnDevice { from, to, bytes }, keep))
}

fn outside(what: &str, address: u64, bytes: u64) -> String {
    format!(
        "{what} of {bytes} bytes at device address {address:#x} is inside no allocation and no variable of this tenant"
    )
}

#[cfg(test)]
mod tests;
