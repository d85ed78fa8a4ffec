//! The controller against requests whose times can be told by hand.

use super::{Channel, DramRequest, FRACTION, Served};
use crate::config::GpuConfig;

fn read(arrive: u64, local: u64) -> DramRequest {
    DramRequest {
        arrive,
        local,
        sectors: 15,
        write: false,
        tag: 0,
        launch: 0,
        sm: 0,
    }
}

fn serve(channel: &mut Channel, requests: &[DramRequest]) -> Vec<Served> {
    requests.iter().for_each(|r| channel.push(*r));
    let mut all = Vec::new();
    channel.run(1 << 20, |served| all.push(served));
    all
}

#[test]
fn an_open_row_goes_first_and_cutting_time_changes_nothing() {
    let mut config = GpuConfig::builtin("gtx480").expect("valid");
    // All of a row in one bank, and no refresh between.
    config.dram.stripe = None;
    config.dram.timing.refi = 0;
    let lines = config.dram.row_bytes / 128;
    // Two rows of one bank, interleaved: the controller serves row by row.
    let banks = u64::from(config.dram.banks);
    let mut channel = Channel::new(&config);
    let bank_of = |channel: &mut Channel, row: u64| {
        channel.push(read(0, row * lines));
        channel.queue.pop_back().expect("just pushed").bank
    };
    let home = bank_of(&mut channel, 0);
    let other = (1..16 * banks)
        .find(|row| bank_of(&mut channel, *row) == home)
        .expect("rows share banks");
    let requests: Vec<_> = (0..8)
        .map(|n| read(n, n % 2 * other * lines + n / 2))
        .collect();
    let served = serve(&mut channel, &requests);
    let rows: Vec<u64> = served.iter().map(|s| s.request.local / lines).collect();
    assert!(rows[..4].iter().all(|row| *row == 0), "{rows:?}");
    assert_eq!(served.iter().filter(|s| s.row_hit).count(), 6);
    let mut cut = Channel::new(&config);
    requests.iter().for_each(|r| cut.push(*r));
    let mut again = Vec::new();
    for end in (0..4000).step_by(7) {
        cut.run(end, |served| again.push(served.at));
    }
    let times: Vec<u64> = served.iter().map(|s| s.at).collect();
    assert_eq!(again, times);
}

#[test]
fn the_bus_is_never_faster_than_its_bandwidth() {
    let config = GpuConfig::builtin("v100").expect("valid");
    let mut channel = Channel::new(&config);
    let requests: Vec<_> = (0..2000).map(|n| read(n / 8, n)).collect();
    let served = serve(&mut channel, &requests);
    let last = served.iter().map(|s| s.at).max().expect("served");
    let rate = 2000.0 * 128.0 * f64::from(config.clock.core_mhz) / 1000.0 / last as f64;
    let peak = config.dram.gigabytes_per_second / f64::from(config.dram.channels);
    assert!(rate <= peak && rate > 0.9 * peak, "{rate} of {peak}");
}

/// Returns when the last of `requests` ends, for a channel of the GTX 480 that is changed first.
fn last(change: impl Fn(&mut GpuConfig), requests: &[DramRequest]) -> u64 {
    let mut config = GpuConfig::builtin("gtx480").expect("valid");
    // Without refreshes only what a test is about.
    config.dram.timing.refi = 0;
    change(&mut config);
    let served = serve(&mut Channel::new(&config), requests);
    served.iter().map(|s| s.at).max().expect("served")
}

/// Returns the core cycles of `count` command clocks of the GTX 480, rounded up.
fn clocks(count: u32) -> u64 {
    let config = GpuConfig::builtin("gtx480").expect("valid");
    config.dram_time(count, FRACTION).div_ceil(1 << FRACTION)
}

#[test]
fn sectors_share_a_burst_and_a_lone_one_pays_for_it() {
    let of = |sectors: u8| {
        let request = DramRequest {
            sectors,
            ..read(100, 0)
        };
        last(|_| (), &[request]) - 100
    };
    let one = of(0b0001);
    assert_eq!(
        one,
        clocks(12 + 12 + 2),
        "row, column and a burst of two clocks"
    );
    assert_eq!(of(0b0011), one);
    assert_eq!(of(0b1100), one);
    // Bursts of one bank group are three clocks apart.
    assert_eq!(of(0b0110), clocks(12 + 12 + 3 + 2));
    assert_eq!(of(0b1111), of(0b0110));
}

#[test]
fn bursts_of_another_bank_group_fill_the_gaps() {
    // Lines 0 and 1 lie in one bank, 2 and 3 in its neighbour, whose group is another.
    let lines = |numbers: &[u64]| numbers.iter().map(|n| read(0, *n)).collect::<Vec<_>>();
    let one_bank: Vec<u64> = (0..64).filter(|n| n % 4 < 2).collect();
    let both: Vec<u64> = (0..32).collect();
    let (alone, shared) = (last(|_| (), &lines(&one_bank)), last(|_| (), &lines(&both)));
    assert!(alone >= clocks(32 * 2 * 3), "{alone}");
    assert!(shared < clocks(32 * 2 * 2 + 40), "{shared}");
    let free = last(|c| c.dram.timing.ccdl = 0, &lines(&one_bank));
    assert!(free < clocks(32 * 2 * 2 + 40), "{free}");
}

#[test]
fn the_bus_rests_between_reads_and_writes() {
    let write = |arrive, local| DramRequest {
        write: true,
        ..read(arrive, local)
    };
    let both = [read(0, 0), write(0, 1)];
    let ccdl = |rest| {
        move |config: &mut GpuConfig| {
            config.dram.timing.turn = rest;
            config.dram.timing.ccdl = 0;
        }
    };
    let (none, two, ten) = (
        last(ccdl(0), &both),
        last(ccdl(2), &both),
        last(ccdl(10), &both),
    );
    assert!(
        two > none && ten - none >= clocks(10) - 1,
        "{none} {two} {ten}"
    );
}

#[test]
fn a_refresh_closes_rows_and_keeps_banks() {
    let refresh = |config: &mut GpuConfig| {
        config.dram.timing.refi = 1000;
        config.dram.timing.rfc = 100;
    };
    // The row is open when the refresh comes due, 1000 clocks from the start.
    let due = clocks(1000);
    let requests = [read(due - 100, 0), read(due + 5, 1)];
    let (with, without) = (last(refresh, &requests), last(|_| (), &requests));
    assert!(with >= due + clocks(12 + 100 + 12 + 12), "{with}");
    assert!(without < due + clocks(40), "{without}");
    // One that came due while nobody asked is over.
    let later = [read(due + clocks(500), 0)];
    assert_eq!(last(refresh, &later), last(|_| (), &later));
}

#[test]
fn few_buffers_bound_what_is_on_its_way() {
    let requests: Vec<_> = (0..200).map(|n| read(0, n)).collect();
    let enough = last(|c| c.dram.buffers = 0, &requests);
    let few = last(|c| c.dram.buffers = 8, &requests);
    // Two lines at a time, each on its way for as long as the controller and its transfer take.
    let config = GpuConfig::builtin("gtx480").expect("valid");
    let trip = Channel::controller_cycles(&config);
    assert!(few > 99 * trip, "{few} {trip}");
    assert!(few > 4 * enough, "{few} {enough}");
}
