//! Every policy over a mix of launches: on the scripted device, and on the model with results that are verified.

use super::rig::Dispatched;
use super::{V100_EPOCHS, V100_LAUNCH, scripted, workloads};
use gridmux_policy::conformance::{Subject, check_policy, mix};
use gridmux_policy::units::Nanos;
use gridmux_policy::{Element, all_policies};

/// On hardware of which everything is known.
mod on_the_scripted_device {
    gridmux_policy::policy_tests!(super::holds_on_the_scripted_device);
}

/// On the SM model as stock hardware, with our workloads.
mod on_the_model {
    gridmux_policy::policy_tests!(super::holds_on_the_model);
}

fn lends(policy: &str) -> bool {
    let mut all = all_policies().iter();
    let info = all.find(|info| info.name == policy).expect("listed");
    info.uses.contains(&Element::Surplus)
}

fn holds_on_the_scripted_device(policy: &'static str) {
    let mut subject = scripted();
    let grain = subject.grain();
    let loads = mix(&subject.device(), grain);
    subject.residences = Some([Nanos(grain.0 / 2), grain * 3]);
    subject.lends = lends(policy);
    let held = check_policy(&mut subject, policy, &loads, grain * 1_000);
    held.unwrap_or_else(|failure| panic!("{failure}"));
}

fn holds_on_the_model(policy: &'static str) {
    let mut subject = Dispatched::new(workloads::open, V100_LAUNCH, V100_EPOCHS);
    // Blocks of these kernels last for one to twenty microseconds.
    subject.residences = Some([Nanos(1_000), Nanos(20_000)]);
    subject.lends = lends(policy);
    let loads = workloads::loads();
    let held = check_policy(&mut subject, policy, &loads, Nanos(100_000_000));
    held.unwrap_or_else(|failure| panic!("{failure}"));
}
