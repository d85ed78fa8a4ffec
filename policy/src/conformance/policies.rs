//! Every policy on an executor, over a mix of launches of several tenants.
//!
//! An executor's tests call [`check_policy`] for each policy ([`policy_tests!`](crate::policy_tests) makes a test of
//! each), with loads of its own or those of [`mix`]. The plans are the policy's, so nothing is worked out by hand:
//! what is checked follows from the plans that were made and from what the subject says that it enforces.
//!
//! Rules: every launch ends; plans use what their policy declares and nothing else; the [`referee`], [`hearing`] and
//! [`precedence`] watch as they do in every case; a policy that promises more than its plans say is held to that
//! ([`promises`]).

use super::run::Run;
use super::{
    Change, Failure, Load, LoadLaunch, Subject, Tapped, hearing, precedence, promises, referee,
};
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId, TenantId};
use crate::policy::{by_name, policies};
use crate::profiles::Profiles;
use crate::shape::{BlockShape, DeviceShape, max_residency};
use crate::units::Nanos;
use std::collections::BTreeMap;

/// Makes a test of each policy, named after it, which calls the function given with the policy's name; and one that
/// fails when a policy has no test.
#[macro_export]
macro_rules! policy_tests {
    ($check:path) => {
        $crate::policy_tests! {
            $check;
            fifo "fifo", fifo_strict "fifo-strict", mpmax "mpmax", sjf "sjf", ljf "ljf", srtf "srtf",
            srtf_zero "srtf-zero", srtf_adaptive "srtf-adaptive", spatial "spatial", even "even", accelos "accelos",
            elastic "elastic", kernelet "kernelet", gridmux "gridmux", smk_p "smk-p", smk "smk",
            smk_p_strict "smk-p-strict", smk_pw "smk-pw", warped_slicer "warped-slicer",
        }
    };
    ($check:path; $($test:ident $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                $check($name);
            }
        )*

        #[test]
        fn every_policy_has_a_test() {
            let listed: Vec<&str> = $crate::all_policies().iter().map(|info| info.name).collect();
            assert_eq!(listed, [$($name),*]);
        }
    };
}

/// Returns loads of three tenants, one of them with two kernels, whose launches meet on a device: several waves of
/// each, blocks of unlike shapes, residences of half a grain to three grains, arrivals between others.
#[must_use]
pub fn mix(shape: &DeviceShape, grain: Nanos) -> Vec<Load> {
    let sms = u32::from(shape.sms);
    let load = |(tenant, weight, stream): (u32, u32, u8),
                (threads, shared_bytes): (u32, u32),
                (blocks, halves): (u32, u64),
                arrivals: &[u64]| {
        let launch = |at: &u64| LoadLaunch {
            at: grain * *at,
            blocks: blocks * sms,
            block_ns: Nanos(grain.0 / 2 * halves),
        };
        Load {
            tenant: TenantId(tenant),
            weight,
            block: BlockShape {
                threads,
                shared_bytes,
                ..BlockShape::default()
            },
            computes: false,
            stream,
            launches: arrivals.iter().map(launch).collect(),
        }
    };
    let quarter = shape.shared_bytes / 5;
    vec![
        load((0, 1, 0), (256, 0), (20, 4), &[0, 12]),
        load((1, 2, 0), (128, 0), (6, 2), &[1, 9, 14]),
        load((1, 2, 1), (512, quarter), (3, 6), &[2, 16]),
        load((2, 1, 0), (64, 0), (12, 1), &[3, 4, 5]),
    ]
}

/// Runs a policy over loads, whose launches must end before `until`, and holds subject and policy to their word.
///
/// # Errors
/// The first rule that was broken, with the policy's name as the case.
///
/// # Panics
/// If there is no such policy.
pub fn check_policy(
    subject: &mut dyn Subject,
    policy: &'static str,
    loads: &[Load],
    until: Nanos,
) -> Result<(), Failure> {
    let made = by_name(policy, DeviceId(0), &subject.device(), &Profiles::default());
    let made = made.unwrap_or_else(|error| panic!("{error}"));
    let (tapped, log) = Tapped::new(made);
    let trace = subject.run(tapped, loads, until);
    let run = Run {
        loads: loads.to_vec(),
        trace,
        log: log.take(),
    };
    let held = || {
        run.well_formed()?;
        run.all_ended()?;
        contended(&run)?;
        declared(&run, policy, &subject.device())?;
        promises::watch(&run, policy, subject)?;
        referee::watch(&run, subject)?;
        hearing::watch(&run, subject)?;
        precedence::watch(&run, subject)
    };
    held().map_err(|what| Failure { case: policy, what })
}

/// Returns a failure if a plan uses an element that its policy does not declare.
fn declared(run: &Run, policy: &str, device: &DeviceShape) -> Result<(), String> {
    let info = policies().iter().find(|info| info.name == policy);
    let uses = info.map_or(&[][..], |info| info.uses);
    let rows = run.events().filter_map(|event| match *event {
        Event::RowNew { row, block, .. } => Some((row, max_residency(device, &block))),
        _ => None,
    });
    let most: BTreeMap<RowId, u16> = rows.collect();
    let undeclared = |plan| {
        let mut others = Element::ALL.into_iter().filter(|of| !uses.contains(of));
        others.find(|element| element.is_in(plan, |row| most.get(&row).map_or(0, |most| *most)))
    };
    let found = run
        .plans()
        .find_map(|(at, plan)| Some((at, undeclared(plan)?)));
    match found {
        Some((at, element)) => run.fail(format!(
            "the plan made at {at} uses {}, which the policy does not declare",
            element.name()
        )),
        None => Ok(()),
    }
}

/// Returns a failure unless launches of at least three loads wait or run at some time: else the policy had nothing to
/// decide.
fn contended(run: &Run) -> Result<(), String> {
    let span = |load: usize| {
        let own = run.trace.launches.iter().filter(move |l| l.load == load);
        own.filter_map(move |l| Some((run.loads[load].launches[l.launch].at, l.end?)))
    };
    let open_at = |at: Nanos| {
        let is_open = |load: &usize| span(*load).any(|(from, to)| from <= at && at < to);
        (0..run.loads.len()).filter(is_open).count()
    };
    let starts = run.trace.blocks.iter();
    let starts = starts.filter(|seen| seen.change == Change::Started);
    let most = starts.map(|seen| open_at(seen.at)).max().unwrap_or(0);
    run.require(&format!("{most} loads at once"), most >= 3)
}
