//! The bookkeeping against scripted queues.

use super::{Blocks, CudaError, Faults, Flights, Keep, Queues, Work};
use crate::device::cuda::module::Module;
use crate::device::{DeviceReport, DomainId, LaneId, Outcome, Tag};
use cudarc::driver::sys::CUresult;
use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_policy::units::Nanos;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Answers of the scripted driver.
#[derive(Default)]
struct Script {
    now: Cell<u64>,
    starts: RefCell<[Option<u64>; 32]>,
    took: RefCell<[Option<u64>; 32]>,
    enqueued: Cell<u32>,
    asked: Cell<u32>,
    enqueue_error: Cell<Option<CUresult>>,
    query_error: Cell<Option<CUresult>>,
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

impl Queues for Scripted {
    fn now(&self) -> Nanos {
        Nanos(self.0.now.get())
    }

    fn enqueue(&mut self, lane: LaneId, _work: &Work<'_>) -> Result<(), CudaError> {
        answer(self.0.enqueue_error.get())?;
        self.0.starts.borrow_mut()[usize::from(lane.0)] = None;
        self.0.took.borrow_mut()[usize::from(lane.0)] = None;
        self.0.enqueued.set(self.0.enqueued.get() + 1);
        Ok(())
    }

    fn started_at(&mut self, lane: LaneId) -> Result<Option<Nanos>, CudaError> {
        self.0.asked.set(self.0.asked.get() + 1);
        answer(self.0.query_error.get())?;
        Ok(self.0.starts.borrow()[usize::from(lane.0)].map(Nanos))
    }

    fn took(&mut self, lane: LaneId) -> Result<Option<Nanos>, CudaError> {
        self.0.asked.set(self.0.asked.get() + 1);
        answer(self.0.query_error.get())?;
        Ok(self.0.took.borrow()[usize::from(lane.0)].map(Nanos))
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
        let script = Rc::new(Script::default());
        let faults = Arc::new(Faults::default());
        let flights = Flights::new(Scripted(Rc::clone(&script)), Arc::clone(&faults), bury);
        Self {
            script,
            faults,
            flights,
        }
    }

    fn begin(&mut self, lane: u8, domain: u32, blocks: Option<Blocks>) -> Tag {
        let tag = tag(lane, 1);
        let work = Work::Fill {
            address: 0,
            bytes: 1,
            value: 0,
            width: Width::One,
        };
        self.flights
            .begin(tag, DomainId(domain), blocks, &work, Keep::default());
        tag
    }

    fn script_lane(&self, lane: usize, start: Option<u64>, took: Option<u64>) {
        self.script.starts.borrow_mut()[lane] = start;
        self.script.took.borrow_mut()[lane] = took;
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
    bench.script_lane(3, Some(100), None);
    let placed = DeviceReport::Placed {
        tag,
        blocks: 8,
        at: Nanos(100),
    };
    assert_eq!(bench.drain(), [placed]);
    assert_eq!(bench.drain(), [], "and only once");
    bench.script_lane(3, Some(100), Some(50));
    let retired = DeviceReport::Retired {
        tag,
        blocks: 8,
        ran: Nanos(400),
        at: Nanos(150),
    };
    assert_eq!(bench.drain(), [retired, done(tag, 100, 150)]);
    assert!(!bench.flights.is_taken(tag.lane));
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
    bench.script_lane(0, Some(0), Some(30));
    let (start, end) = (Nanos(0), Nanos(30));
    assert_eq!(
        bench.drain(),
        [
            DeviceReport::Placed {
                tag,
                blocks: 10,
                at: start
            },
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
    bench.script_lane(31, Some(5), Some(2));
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
        bench.script_lane(lane, Some(1), Some(1));
    }
    assert_eq!(bench.flights.poll(), Some(done(tags[0], 1, 2)));
    // Lane 0 is used again and is over at once; the others come first all the same.
    let again = bench.begin(0, 0, None);
    bench.script_lane(0, Some(1), Some(1));
    assert_eq!(
        bench.drain(),
        [done(tags[1], 1, 2), done(tags[2], 1, 2), done(again, 1, 2)]
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
    bench.script_lane(0, Some(0), Some(1));
    assert_eq!(bench.drain(), [done(good, 0, 1)]);
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
    bench.script_lane(0, Some(0), None);
    bench.drain();
    assert_eq!(Arc::strong_count(&module), 2);
    bench.script_lane(0, Some(0), Some(1));
    bench.drain();
    assert_eq!(Arc::strong_count(&module), 1);
}
