//! SMK-P on hardware that takes whole slices: tenants' shares follow their weights.
//!
//! Every tenant always has launches waiting, in as many streams as it has loads. A share is what the dispatcher's
//! meter told the policy, from a tenth of the time on.

use super::hardware::SHAPE;
use super::rig::Dispatched;
use super::scripted;
use gridmux_policy::conformance::{Load, LoadLaunch, Subject, Tapped};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;
use gridmux_policy::{DeviceId, Event, Profiles, TenantId, by_name};

/// A kernel: threads and KiB of shared memory of a block, blocks of a launch, and how long a block stays.
pub(super) type Kernel = (u32, u32, u32, u64);

/// A tenant: its weight, and for each of its streams the kernels that it launches in turn.
pub(super) type Tenant = (u32, Vec<Vec<Kernel>>);

/// What a tenant may hold at most beyond what it is entitled to while others want the room, as a part of it.
pub(super) const EXCESS: f64 = 0.05;

pub(super) const MIXED: [Kernel; 8] = [
    (256, 0, 1000, 8_000),
    (128, 48, 1000, 60_000),
    (512, 8, 1000, 30_000),
    (64, 0, 1000, 12_000),
    (1024, 16, 1000, 25_000),
    (96, 24, 1000, 5_000),
    (192, 0, 1000, 40_000),
    (32, 4, 1000, 9_000),
];

/// Returns a tenant that launches one kernel in two streams.
pub(super) fn two_streams(weight: u32, kernel: Kernel) -> Tenant {
    (weight, vec![vec![kernel]; 2])
}

/// Returns a tenant with a stream for each kernel.
fn stream_each(weight: u32, kernels: &[Kernel]) -> Tenant {
    (weight, kernels.iter().map(|kernel| vec![*kernel]).collect())
}

fn three(weights: [u32; 3], last_ns: u64) -> Vec<Tenant> {
    vec![
        two_streams(weights[0], MIXED[0]),
        two_streams(weights[1], (128, 48, 1000, last_ns)),
        two_streams(weights[2], MIXED[2]),
    ]
}

/// Returns a load for each kernel of each stream of a tenant, with launches for at least `until` nanoseconds.
fn loads(number: u32, (weight, streams): &Tenant, until: u64) -> Vec<Load> {
    let load = |stream: u8, turn: usize, of: &[Kernel]| {
        let (threads, shared_kib, blocks, block_ns) = of[turn];
        // On the whole device the fewest blocks at a time that a kernel here has.
        let waves = u64::from(blocks).div_ceil(64);
        let launch = |n: u64| LoadLaunch {
            // In turn with the stream's other kernels.
            at: Nanos(n * of.len() as u64 + turn as u64),
            blocks,
            block_ns: Nanos(block_ns),
        };
        Load {
            tenant: TenantId(number),
            weight: *weight,
            block: BlockShape {
                threads,
                registers: 0,
                shared_bytes: shared_kib * 1024,
            },
            computes: false,
            stream,
            launches: (0..until / waves / block_ns + 20).map(launch).collect(),
        }
    };
    let streams = (0..).zip(streams);
    let mut loads: Vec<Load> = streams
        .flat_map(|(stream, of)| (0..of.len()).map(move |turn| load(stream, turn, of)))
        .collect();
    if loads.is_empty() {
        // It introduces the tenant.
        loads.push(Load {
            launches: Vec::new(),
            ..load(0, 0, &MIXED)
        });
    }
    loads
}

/// Runs tenants for some milliseconds; returns what each held over what it was entitled to, `None` for an idle one.
fn ratios(tenants: &[Tenant], ms: u64, loses_events: bool) -> Vec<Option<f64>> {
    ratios_on(scripted(), tenants, ms, loses_events)
}

/// Does as [`ratios`], on a device.
pub(super) fn ratios_on(
    mut subject: Dispatched,
    tenants: &[Tenant],
    ms: u64,
    loses_events: bool,
) -> Vec<Option<f64>> {
    let until = ms * 1_000_000;
    let numbered = || (0..).zip(tenants);
    let loads: Vec<Load> = numbered()
        .flat_map(|(number, tenant)| loads(number, tenant, until))
        .collect();
    let policy = by_name("smk-p", DeviceId(0), &SHAPE, &Profiles::default());
    let (policy, log) = Tapped::new(policy.expect("listed"));
    if loses_events {
        subject.lose_events(0, 0);
    }
    subject.run(policy, &loads, Nanos(until));
    let events = log.take_events();
    let lost = events.iter().any(|e| matches!(e, Event::Lost { .. }));
    assert_eq!(lost, loses_events);
    let ratio = |number: u32| {
        let readings = events.iter().filter_map(|event| match *event {
            Event::Share {
                tenant,
                held,
                entitled,
                at,
            } if tenant == TenantId(number) => Some((held, entitled, at)),
            _ => None,
        });
        let mut settled = readings.skip_while(|(.., at)| at.0 < until / 10);
        let (first, last) = (settled.next()?, settled.last()?);
        assert!(last.2.0 > until * 9 / 10, "it ran out of work");
        Some((last.0 - first.0) / (last.1 - first.1))
    };
    numbered().map(|(number, _)| ratio(number)).collect()
}

fn assert_fair(what: &str, tenants: &[Tenant], ms: u64, within: f64) {
    let ratios = ratios(tenants, ms, false);
    println!("{what}: held over entitled {ratios:.4?}");
    for (ratio, (_, streams)) in ratios.iter().zip(tenants) {
        match ratio {
            Some(ratio) => assert!(
                *ratio > 1.0 - within && *ratio < 1.0 + EXCESS,
                "{what}: {ratio}"
            ),
            None => assert!(streams.is_empty(), "{what}: {ratios:?}"),
        }
    }
}

#[test]
fn shares_follow_weights() {
    for weights in [[1, 1, 1], [2, 1, 1], [1, 2, 5], [8, 1, 1]] {
        let tenants = three(weights, 120_000);
        assert_fair(&format!("{weights:?}"), &tenants, 40, 0.03);
    }
    assert_fair("5 ms", &three([2, 1, 1], 40_000), 5, 0.05);
    // Two blocks fill an SM; an exact split of one SM does not exist.
    let coarse = [
        two_streams(2, (1024, 0, 1000, 20_000)),
        two_streams(1, (1024, 100, 1000, 50_000)),
        two_streams(1, (768, 0, 1000, 9_000)),
    ];
    assert_fair("coarse", &coarse, 60, 0.03);
    // One is bound by threads, one by shared memory: together they could hold 200 %.
    let complementary = [
        two_streams(2, (512, 0, 1000, 10_000)),
        two_streams(1, (64, 56, 1000, 10_000)),
    ];
    assert_fair("complementary", &complementary, 40, 0.03);
}

#[test]
fn what_a_tenant_cannot_use_of_its_part_is_lent_to_the_others() {
    // A serving tenant: small grids, one at a time.
    let serving = [
        (2, vec![vec![(128, 0, 64, 4_000)]]),
        two_streams(1, (256, 32, 1000, 200_000)),
        two_streams(1, (256, 0, 1000, 25_000)),
    ];
    let ratios = ratios(&serving, 120, false);
    println!("serving: held over entitled {ratios:.4?}");
    let [Some(serving), Some(one), Some(other)] = ratios[..] else {
        panic!("{ratios:?}");
    };
    assert!(serving > 0.93, "{ratios:?}");
    for other in [one, other] {
        assert!(other > 0.97 && other < 1.0 + EXCESS, "{ratios:?}");
    }
}

#[test]
fn a_policy_that_loses_events_holds_shares_all_the_same() {
    let ratios = ratios(&three([2, 1, 1], 40_000), 40, true);
    let is_fair = |ratio: &Option<f64>| ratio.is_some_and(|ratio| (ratio - 1.0).abs() < 0.05);
    assert!(ratios.iter().all(is_fair), "{ratios:?}");
}

#[test]
fn an_idle_tenant_changes_nothing() {
    let mut tenants = three([2, 1, 1], 40_000);
    let alone = ratios(&tenants, 20, false);
    tenants.push((3, Vec::new()));
    let beside = ratios(&tenants, 20, false);
    assert_eq!(alone[..], beside[..3]);
    assert_eq!(beside[3], None);
    assert!(alone.iter().all(Option::is_some));
}

/// A tenant that launches one kernel with two block sizes got 0.9 % of the device instead of half.
#[test]
fn two_block_shapes_get_half() {
    let (wide, narrow) = ((256, 0, 64, 50_000), (128, 0, 64, 50_000));
    for streams in [1, 3] {
        let tenants = [
            (1, vec![vec![wide, narrow]; streams]),
            (1, vec![vec![wide]; streams]),
        ];
        assert_fair(&format!("{streams} streams"), &tenants, 60, 0.03);
    }
}

#[test]
fn weights_hold_over_kernels_of_mixed_shapes() {
    let tenants = [stream_each(30, &MIXED[..4]), stream_each(70, &MIXED[2..5])];
    assert_fair("30:70", &tenants, 60, 0.03);
    let tenants = [
        stream_each(1, &MIXED[..3]),
        stream_each(2, &MIXED[3..7]),
        stream_each(4, &MIXED[..2]),
    ];
    assert_fair("1:2:4", &tenants, 60, 0.03);
    let tenants: Vec<Tenant> = MIXED.map(|kernel| two_streams(5, kernel)).into();
    assert_fair("eight, one kernel each", &tenants, 60, 0.03);
}

/// More tenants than have room at once: parts go round, whatever the size of their blocks.
#[test]
fn more_tenants_than_fit_take_turns() {
    let shapes = [(256, 0), (128, 48), (512, 8), (1024, 100)];
    let tenants: Vec<Tenant> = (0..40)
        .map(|number| {
            let (threads, shared_kib) = shapes[number % 4];
            let weight = [1, 1, 3, 2, 1][number % 5];
            (weight, vec![vec![(threads, shared_kib, 1000, 20_000)]])
        })
        .collect();
    assert_fair("40 tenants", &tenants, 200, 0.03);
}
