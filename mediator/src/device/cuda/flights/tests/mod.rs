//! The bookkeeping against scripted queues.

mod stamped;

use super::{
    Blocks, CudaError, Faults, Flights, Keep, LaneSlot, Queues, Sampling, StampRecord, Work,
};
use crate::device::cuda::module::Module;
use crate::device::cuda::tables::Function;
use crate::device::{DeviceReport, DomainId, LaneId, Level, MOST_DEPTH, Outcome, Tag};
use cudarc::driver::sys::CUresult;
use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_launch::Stamp;
use gridmux_policy::units::Nanos;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Answers of the scripted driver.
#[derive(Default)]
struct Script {
    now: Cell<u64>,
    /// By lane: operations that were enqueued, and how many of these have started and ended.
    lanes: RefCell<[ScriptedLane; 32]>,
    levels: RefCell<Vec<Level>>,
    enqueued: Cell<u32>,
    asked: Cell<u32>,
    /// By slot.
    stamps: [Vec<StampRecord>; MOST_DEPTH],
    enqueue_error: Cell<Option<CUresult>>,
    query_error: Cell<Option<CUresult>>,
}

/// Counts of a lane's operations.
#[derive(Clone, Copy, Default)]
struct ScriptedLane {
    enqueued: u32,
    started: u32,
    ended: u32,
    /// By slot: the number of the operation that has it, counted from 1.
    of_slot: [u32; MOST_DEPTH],
}

struct Scripted(Rc<Script>);

fn answer(error: Option<CUresult>) -> Result<(), CudaError> {
    error.map_or(Ok(()), |code| {
        Err(CudaError {
            call: "scripted",
            code,
        })
    })
}

impl Scripted {
    fn ask(&self, at: LaneSlot, reached: impl Fn(&ScriptedLane) -> u32) -> Result<bool, CudaError> {
        self.0.asked.set(self.0.asked.get() + 1);
        answer(self.0.query_error.get())?;
        let lane = &self.0.lanes.borrow()[usize::from(at.lane.0)];
        Ok(lane.of_slot[usize::from(at.slot)] <= reached(lane))
    }
}

impl Queues for Scripted {
    fn now(&self) -> Nanos {
        Nanos(self.0.now.get())
    }

    fn enqueue(&mut self, at: LaneSlot, level: Level, _work: &Work<'_>) -> Result<(), CudaError> {
        answer(self.0.enqueue_error.get())?;
        let lane = &mut self.0.lanes.borrow_mut()[usize::from(at.lane.0)];
        let slot = &mut lane.of_slot[usize::from(at.slot)];
        assert!(*slot <= lane.ended, "the slot's operation has ended");
        lane.enqueued += 1;
        *slot = lane.enqueued;
        self.0.levels.borrow_mut().push(level);
        self.0.enqueued.set(self.0.enqueued.get() + 1);
        Ok(())
    }

    fn has_started(&mut self, at: LaneSlot) -> Result<bool, CudaError> {
        self.ask(at, |lane| lane.started)
    }

    fn has_ended(&mut self, at: LaneSlot) -> Result<bool, CudaError> {
        self.ask(at, |lane| lane.ended)
    }

    fn stamps(&self, at: LaneSlot) -> &[StampRecord] {
        &self.0.stamps[usize::from(at.slot)]
    }
}

thread_local! {
    static BURIALS: Cell<u32> = const { Cell::new(0) };
}

fn bury() {
    BURIALS.set(BURIALS.get() + 1);
}

struct Bench {
    script: Rc<Script>,
    faults: Arc<Faults>,
    flights: Flights<Scripted>,
}

impl Bench {
    fn new() -> Self {
        let script = Rc::new(Script {
            stamps: [(); MOST_DEPTH].map(|()| (0..64).map(|_| StampRecord::default()).collect()),
            ..Script::default()
        });
        let faults = Arc::new(Faults::default());
        let flights = Flights::new(Scripted(Rc::clone(&script)), Arc::clone(&faults), bury);
        Self {
            script,
            faults,
            flights,
        }
    }

    fn begin(&mut self, lane: u8, domain: u32, blocks: Option<Blocks>) -> Tag {
        let tag = tag(lane, self.script.enqueued.get());
        self.flights
            .begin(tag, DomainId(domain), blocks, &FILL, Keep::default());
        tag
    }

    /// Begins a launch of a kernel that stamps its blocks, one in 16.
    fn begin_stamped(&mut self, lane: u8, blocks: Blocks) -> Tag {
        let tag = tag(lane, self.script.enqueued.get());
        let work = Work::Launch {
            function: Function(std::ptr::null_mut()),
            grid: [blocks.all, 1, 1],
            block: [1, 1, 1],
            dynamic_shared_bytes: 0,
            is_cooperative: false,
            level: Level(2),
            params: &[],
            places: &[],
            stamps: Sampling::of([blocks.all, 1, 1], 64),
        };
        self.flights
            .begin(tag, DomainId(0), Some(blocks), &work, Keep::default());
        tag
    }

    /// A block of the first slot's launch writes its record.
    fn stamp(&self, record: usize, start: u64, end: Option<u64>) {
        self.stamp_in(0, record, (start, end));
    }

    /// A block of a slot's launch writes its record.
    fn stamp_in(&self, slot: usize, record: usize, (start, end): (u64, Option<u64>)) {
        self.script.stamps[slot][record].write(Stamp { start, end, sm: 0 });
    }

    /// The next operation of a lane has started.
    fn start(&self, lane: usize, at: u64) {
        self.script.now.set(at);
        self.script.lanes.borrow_mut()[lane].started += 1;
    }

    /// The next operation of a lane has ended.
    fn end(&self, lane: usize, at: u64) {
        self.script.now.set(at);
        self.script.lanes.borrow_mut()[lane].ended += 1;
    }

    fn drain(&mut self) -> Vec<DeviceReport> {
        std::iter::from_fn(|| self.flights.poll()).collect()
    }
}

fn tag(lane: u8, generation: u32) -> Tag {
    Tag {
        lane: LaneId(lane),
        generation,
    }
}

const FILL: Work<'_> = Work::Fill {
    address: 0,
    bytes: 1,
    value: 0,
    width: Width::One,
};

const FITS: Blocks = Blocks {
    all: 8,
    resident: 8,
};

fn failed(tag: Tag, at: u64, status: CompletionStatus) -> DeviceReport {
    let at = Nanos(at);
    DeviceReport::Ended {
        tag,
        start: at,
        end: at,
        outcome: Outcome::Failed(status),
    }
}

fn done(tag: Tag, start: u64, end: u64) -> DeviceReport {
    DeviceReport::Ended {
        tag,
        start: Nanos(start),
        end: Nanos(end),
        outcome: Outcome::Done,
    }
}

#[test]
fn a_launch_is_placed_when_it_starts_and_retired_when_it_ends() {
    let mut bench = Bench::new();
    let tag = bench.begin(3, 0, Some(FITS));
    assert_eq!(bench.drain(), []);
    bench.start(3, 100);
    let placed = DeviceReport::Placed {
        tag,
        blocks: 8,
        at: Nanos(100),
    };
    assert_eq!(bench.drain(), [placed]);
    assert_eq!(bench.drain(), [], "and only once");
    bench.end(3, 150);
    let retired = DeviceReport::Retired {
        tag,
        blocks: 8,
        ran: Nanos(400),
        at: Nanos(150),
    };
    assert_eq!(bench.drain(), [retired, done(tag, 100, 150)]);
    assert_eq!(bench.flights.flying(), 0);
}

#[test]
fn blocks_beyond_the_device_are_placed_at_the_end() {
    let mut bench = Bench::new();
    let tag = bench.begin(
        0,
        0,
        Some(Blocks {
            all: 100,
            resident: 10,
        }),
    );
    bench.start(0, 0);
    assert_eq!(bench.drain(), [placed(tag, 10, 0)]);
    bench.end(0, 30);
    let end = Nanos(30);
    assert_eq!(
        bench.drain(),
        [
            DeviceReport::Placed {
                tag,
                blocks: 90,
                at: end
            },
            DeviceReport::Retired {
                tag,
                blocks: 100,
                ran: Nanos(300),
                at: end
            },
            done(tag, 0, 30),
        ]
    );
}

#[test]
fn a_copy_only_ends() {
    let mut bench = Bench::new();
    let tag = bench.begin(31, 0, None);
    bench.start(31, 5);
    assert_eq!(bench.drain(), []);
    bench.end(31, 7);
    assert_eq!(bench.drain(), [done(tag, 5, 7)]);
}

#[test]
fn lanes_take_turns_and_each_is_asked_once_per_fruitless_poll() {
    let mut bench = Bench::new();
    let tags = [0, 9, 31].map(|lane| bench.begin(lane, 0, None));
    bench.script.asked.set(0);
    assert_eq!(bench.flights.poll(), None);
    assert_eq!(bench.script.asked.get(), 3);
    for lane in [0, 9, 31] {
        bench.start(lane, 1);
        bench.end(lane, 1);
    }
    assert_eq!(bench.flights.poll(), Some(done(tags[0], 1, 1)));
    // Lane 0 is used again and is over at once; the others come first all the same.
    let again = bench.begin(0, 0, None);
    bench.start(0, 1);
    bench.end(0, 1);
    assert_eq!(
        bench.drain(),
        [done(tags[1], 1, 1), done(tags[2], 1, 1), done(again, 1, 1)]
    );
}

#[test]
fn a_refusal_ends_its_operation_alone() {
    let mut bench = Bench::new();
    let good = bench.begin(0, 0, None);
    bench
        .script
        .enqueue_error
        .set(Some(CUresult::CUDA_ERROR_INVALID_VALUE));
    let bad = bench.begin(1, 0, Some(FITS));
    assert_eq!(bench.drain(), [failed(bad, 0, CompletionStatus::BadShape)]);
    let text = bench.faults.take(bad).unwrap();
    assert!(text.contains("CUDA_ERROR_INVALID_VALUE"), "{text}");
    assert_eq!(bench.faults.take(bad), None, "a text is given once");
    assert!(!bench.flights.is_lost());
    bench.start(0, 0);
    bench.end(0, 1);
    assert_eq!(bench.drain(), [done(good, 1, 1)]);
}

#[test]
fn one_tenants_launches_are_blamed_when_only_they_were_in_flight() {
    let mut bench = Bench::new();
    let first = bench.begin(0, 7, Some(FITS));
    let second = bench.begin(1, 7, Some(FITS));
    let bystander = bench.begin(2, 8, None);
    bench
        .script
        .query_error
        .set(Some(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert_eq!(
        bench.drain(),
        [
            failed(first, 0, CompletionStatus::MemoryFault),
            failed(second, 0, CompletionStatus::MemoryFault),
            failed(bystander, 0, CompletionStatus::DeviceLost),
        ]
    );
    let text = bench.faults.take(first).unwrap();
    assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{text}");
}

#[test]
fn nobody_is_blamed_when_it_may_have_been_either() {
    let mut bench = Bench::new();
    let tags = [bench.begin(0, 7, Some(FITS)), bench.begin(1, 8, Some(FITS))];
    bench
        .script
        .query_error
        .set(Some(CUresult::CUDA_ERROR_ASSERT));
    let all_lost = tags.map(|tag| failed(tag, 0, CompletionStatus::DeviceLost));
    assert_eq!(bench.drain(), all_lost);
}

#[test]
fn after_a_loss_everything_fails_and_the_process_ends_after_the_last_report() {
    BURIALS.set(0);
    let mut bench = Bench::new();
    let first = bench.begin(0, 7, Some(FITS));
    let second = bench.begin(1, 7, Some(FITS));
    bench
        .script
        .query_error
        .set(Some(CUresult::CUDA_ERROR_UNKNOWN));
    assert_eq!(
        bench.flights.poll(),
        Some(failed(first, 0, CompletionStatus::DeviceLost))
    );
    assert!(bench.flights.is_lost());
    assert_eq!(BURIALS.get(), 0, "a report is still to come");
    assert_eq!(
        bench.flights.poll(),
        Some(failed(second, 0, CompletionStatus::DeviceLost))
    );
    assert_eq!(BURIALS.get(), 0, "the dispatcher has yet to act on it");
    assert_eq!(bench.flights.poll(), None);
    assert_eq!(BURIALS.get(), 1);
    let enqueued = bench.script.enqueued.get();
    let late = bench.begin(5, 7, None);
    assert_eq!(
        bench.script.enqueued.get(),
        enqueued,
        "a lost context is asked nothing"
    );
    assert_eq!(
        bench.drain(),
        [failed(late, 0, CompletionStatus::DeviceLost)]
    );
    assert_eq!(BURIALS.get(), 1, "once is enough");
}

#[test]
fn a_sticky_error_at_submission_is_that_launchs_if_no_other_was_in_flight() {
    let mut bench = Bench::new();
    let flying = bench.begin(4, 7, None);
    let error = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    bench.script.enqueue_error.set(Some(error));
    let new = bench.begin(2, 7, Some(FITS));
    let lost = failed(flying, 0, CompletionStatus::DeviceLost);
    let faulty = failed(new, 0, CompletionStatus::MemoryFault);
    assert_eq!(bench.drain(), [faulty, lost]);

    let mut bench = Bench::new();
    let flying = bench.begin(4, 8, Some(FITS));
    bench.script.enqueue_error.set(Some(error));
    let new = bench.begin(2, 7, Some(FITS));
    let all_lost = [new, flying].map(|tag| failed(tag, 0, CompletionStatus::DeviceLost));
    assert_eq!(bench.drain(), all_lost);
}

#[test]
fn what_an_operation_uses_is_held_until_its_end_was_seen() {
    let mut bench = Bench::new();
    let module = Arc::new(Module::none());
    let work = Work::Fill {
        address: 0,
        bytes: 1,
        value: 0,
        width: Width::One,
    };
    let keep = Keep {
        modules: [Some(Arc::clone(&module)), None],
        buffer: None,
    };
    bench
        .flights
        .begin(tag(0, 1), DomainId(0), Some(FITS), &work, keep);
    bench.start(0, 0);
    bench.drain();
    assert_eq!(Arc::strong_count(&module), 2);
    bench.end(0, 1);
    bench.drain();
    assert_eq!(Arc::strong_count(&module), 1);
}

fn placed(tag: Tag, blocks: u32, at: u64) -> DeviceReport {
    DeviceReport::Placed {
        tag,
        blocks,
        at: Nanos(at),
    }
}

fn retired(tag: Tag, blocks: u32, ran: u64, at: u64) -> DeviceReport {
    DeviceReport::Retired {
        tag,
        blocks,
        ran: Nanos(ran),
        at: Nanos(at),
    }
}
