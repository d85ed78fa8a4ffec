//! Launches whose blocks write stamps.

use super::{Bench, FITS, done, placed, retired, tag};
use crate::device::cuda::flights::Blocks;
use crate::device::cuda::flights::residence::Residence;
use crate::device::{DeviceReport, LaneId, Level};
use gridmux_launch::{Sampling, Stamp, StampRecord};
use gridmux_policy::units::Nanos;
use std::collections::VecDeque;

/// Blocks of three records: 16, 16 and 8.
const FORTY: Blocks = Blocks {
    all: 40,
    resident: 32,
};

#[test]
fn a_launch_that_waits_for_room_has_nothing_placed() {
    let mut bench = Bench::new();
    let tag = bench.begin_stamped(3, FORTY);
    bench.script.now.set(5_000);
    assert_eq!(
        bench.drain(),
        [],
        "its queue may have reached it, no block has started"
    );
    // The device's own time has nothing to do with ours.
    bench.stamp(0, 1_000_000, None);
    bench.script.now.set(6_000);
    assert_eq!(bench.drain(), [placed(tag, 16, 6_000)]);
    assert_eq!(bench.drain(), [], "and only once");
    // It was in the lane from 0 to 9,100; its blocks say that all of it happened in the last 4,000.
    bench.stamp(0, 1_000_000, Some(1_003_000));
    bench.stamp(1, 1_000_500, Some(1_003_500));
    bench.stamp(2, 1_003_000, Some(1_004_000));
    bench.end(3, 9_100);
    let ran = 16 * 3_000 + 16 * 3_000 + 8 * 1_000;
    assert_eq!(
        bench.drain(),
        [
            placed(tag, 24, 9_100),
            retired(tag, 40, ran, 9_100),
            done(tag, 5_100, 9_100)
        ]
    );
}

#[test]
fn stamped_blocks_are_placed_and_retired_as_they_start_and_end() {
    let mut bench = Bench::new();
    let tag = bench.begin_stamped(0, FORTY);
    bench.stamp(0, 70, None);
    bench.stamp(1, 71, None);
    bench.script.now.set(10);
    assert_eq!(bench.drain(), [placed(tag, 32, 10)]);
    // The second ends before the first; the third takes its room.
    bench.stamp(1, 71, Some(78));
    bench.stamp(2, 79, None);
    bench.script.now.set(20);
    assert_eq!(
        bench.drain(),
        [retired(tag, 16, 16 * 7, 20), placed(tag, 8, 20)],
    );
    bench.stamp(0, 70, Some(90));
    bench.script.now.set(30);
    assert_eq!(bench.drain(), [retired(tag, 16, 16 * 20, 30)]);
    bench.stamp(2, 79, Some(95));
    bench.end(0, 35);
    assert_eq!(
        bench.drain(),
        [retired(tag, 8, 8 * 16, 35), done(tag, 10, 35)]
    );
}

#[test]
fn a_short_launch_is_told_at_its_end_as_its_stamps_say() {
    let mut bench = Bench::new();
    let tag = bench.begin_stamped(0, FITS);
    bench.stamp(0, 500, Some(530));
    bench.end(0, 100);
    assert_eq!(
        bench.drain(),
        [
            placed(tag, 8, 70),
            retired(tag, 8, 8 * 30, 100),
            done(tag, 70, 100)
        ]
    );
}

#[test]
fn a_launch_that_stamps_is_asked_when_its_stamps_say_that_it_is_over_and_now_and_then() {
    let mut bench = Bench::new();
    let tag = bench.begin_stamped(0, FITS);
    bench.stamp(0, 500, None);
    bench.script.now.set(49_999);
    assert_eq!(bench.drain(), [placed(tag, 8, 49_999)]);
    assert_eq!(bench.script.asked.get(), 0);
    bench.script.now.set(50_000);
    assert_eq!(bench.drain(), []);
    assert_eq!(bench.script.asked.get(), 1, "its end need not be stamped");
    bench.drain();
    assert_eq!(bench.script.asked.get(), 1);
    bench.stamp(0, 500, Some(600));
    bench.drain();
    assert_eq!(
        bench.script.asked.get(),
        3,
        "at each poll, because other blocks may end later"
    );
    bench.end(0, 50_001);
    assert_eq!(bench.drain(), [done(tag, 49_901, 50_001)]);
}

#[test]
fn operations_of_a_lane_are_told_one_after_another() {
    let mut bench = Bench::new();
    let first = bench.begin_stamped(4, FITS);
    let rest = [(); 3].map(|()| bench.begin_stamped(4, FITS));
    assert!(!bench.flights.has_room(LaneId(4)));
    bench.stamp(0, 10, Some(60));
    bench.stamp_in(1, 0, (60, Some(90)));
    bench.script.lanes.borrow_mut()[4].ended = 2;
    bench.script.now.set(100);
    // The second could begin when the first was seen to have ended.
    assert_eq!(
        bench.drain(),
        [
            placed(first, 8, 50),
            retired(first, 8, 8 * 50, 100),
            done(first, 50, 100),
            placed(rest[0], 8, 100),
            retired(rest[0], 8, 0, 100),
            done(rest[0], 100, 100),
        ]
    );
    assert!(bench.flights.has_room(LaneId(4)));
    let next = bench.begin(4, 0, None);
    assert_eq!(
        bench.script.levels.borrow()[..],
        [Level(2); 5],
        "a lane has one level until it is empty"
    );
    bench.script.lanes.borrow_mut()[4].started = 5;
    bench.script.lanes.borrow_mut()[4].ended = 5;
    bench.script.now.set(60_000);
    let ended = bench.drain();
    assert_eq!(ended.last(), Some(&done(next, 60_000, 60_000)), "{ended:?}");
    assert_eq!(bench.flights.flying(), 0);
    bench.begin(4, 0, None);
    assert_eq!(bench.script.levels.borrow().last(), Some(&Level::LOWEST));
}

#[test]
fn blocks_whose_end_nobody_wrote_resided_as_long_as_the_others() {
    let mut bench = Bench::new();
    let tag = bench.begin_stamped(0, FORTY);
    bench.stamp(0, 500, Some(530));
    bench.stamp(1, 500, None);
    bench.end(0, 60_000);
    assert_eq!(
        bench.drain(),
        [
            placed(tag, 32, 59_970),
            placed(tag, 8, 60_000),
            retired(tag, 40, 40 * 30, 60_000),
            done(tag, 59_970, 60_000)
        ]
    );
    // None has written anything: it is estimated.
    let mut bench = Bench::new();
    let tag = bench.begin_stamped(0, FITS);
    bench.end(0, 60_000);
    assert_eq!(
        bench.drain(),
        [
            placed(tag, 8, 0),
            retired(tag, 8, 8 * 60_000, 60_000),
            done(tag, 0, 60_000)
        ]
    );
}

#[test]
fn forged_stamps_stay_within_the_launch() {
    let mut bench = Bench::new();
    let narrow = Blocks {
        all: 40,
        resident: 10,
    };
    let tag = bench.begin_stamped(0, narrow);
    bench.stamp(0, 1, Some(u64::MAX));
    bench.stamp(1, u64::MAX, Some(1));
    bench.stamp(2, u64::MAX, None);
    // Behind the launch's own.
    bench.stamp(3, 1, Some(2));
    bench.script.now.set(50);
    let mut seen = bench.drain();
    bench.end(0, 60_000);
    seen.extend(bench.drain());
    let (mut outstanding, mut all, mut residence) = (0, 0, 0);
    for report in &seen {
        match *report {
            DeviceReport::Placed { blocks, at, .. } => {
                all += blocks;
                outstanding += blocks;
                assert!(outstanding <= 10 || at == Nanos(60_000), "{seen:?}");
            }
            DeviceReport::Retired {
                blocks, ran, at, ..
            } => {
                outstanding -= blocks;
                residence += ran.0;
                assert!(ran.0 <= u64::from(blocks) * at.0, "{seen:?}");
            }
            _ => {}
        }
    }
    assert_eq!((all, outstanding), (40, 0), "{seen:?}");
    assert!(residence <= 40 * 60_000, "{seen:?}");
    let end = seen.last().copied();
    assert!(
        matches!(end, Some(DeviceReport::Ended { tag: ended, start, end, .. })
            if ended == tag && start <= end && end == Nanos(60_000)),
        "{seen:?}"
    );
}

#[test]
fn blocks_that_stamped_are_told_one_by_one_within_their_launch() {
    let records: Vec<StampRecord> = (0..64).map(|_| StampRecord::default()).collect();
    let stamps = [
        (1_000, Some(1_300), 7),
        (1_100, Some(1_500), 131),
        (1_200, None, 9),
    ];
    for (record, (start, end, sm)) in records.iter().zip(stamps) {
        record.write(Stamp { start, end, sm });
    }
    let sampling = Sampling::of([FORTY.all, 1, 1], 64);
    let Residence::Stamped(mut stamped) = Residence::new(Some(FORTY), sampling) else {
        panic!("it is sampled");
    };
    let (tag, mut ready) = (tag(2, 5), VecDeque::new());
    let times = (tag, Nanos(0), Nanos(9_000));
    let (start, end) = stamped.finish(&records, times, &mut ready);
    assert_eq!((start, end), (Nanos(8_500), Nanos(9_000)));
    ready.clear();
    // What was forged since stays within the launch all the same.
    records[1].write(Stamp {
        start: 900,
        end: Some(u64::MAX),
        sm: u32::MAX,
    });
    stamped.tell_blocks(&records, (tag, start, end), &mut ready);
    let block = |block, sm, [start, end]: [u64; 2]| DeviceReport::BlockEnded {
        tag,
        block,
        sm,
        start: Nanos(start),
        end: Nanos(end),
    };
    let due = [
        block(0, 7, [8_500, 8_800]),
        block(16, u32::MAX, [8_500, 9_000]),
    ];
    assert_eq!(ready, due, "the third one's end is not known");
}

/// A record that stands for more blocks than reside at once is reported piece by piece, each with its part of the
/// residence.
#[test]
fn blocks_that_ended_together_resided_alike() {
    let mut bench = Bench::new();
    let narrow = Blocks {
        all: 40,
        resident: 10,
    };
    let tag = bench.begin_stamped(0, narrow);
    bench.stamp(0, 1, Some(31));
    bench.script.now.set(50);
    let seen = bench.drain();
    assert_eq!(
        seen,
        [
            placed(tag, 10, 50),
            retired(tag, 10, 10 * 30, 50),
            placed(tag, 6, 50),
            retired(tag, 6, 6 * 30, 50)
        ]
    );
}
