//! SMK-(P+W): the paper's partition of each SM, and of the issue slots there.
//!
//! Source: SMK (Wang et al., HPCA 2016) section 5.4. Static resources are partitioned as under `smk-p-strict`. Of the
//! instructions that each warp scheduler issues, kernel k has `Quota_k = C_k / ΣC` with `C_k = x_k · S_k / T_k`: what
//! it issues alone, by as many of its blocks as the partition gives it. Quotas are numbers of instructions, `Quota_k`
//! of an epoch's length of 10,000; who has spent his waits until all have. Profiling SMs tell x and T
//! ([`crate::issue_profile`]). A kernel of which they are not known issues freely beside those that have quotas.
//!
//! SMK-(P+W)2 of section 6.6 is the same for two kernels; for more it limits the kernels of an SM to two.

use super::smk_p::{Extent, Settings, SmkP};
use crate::contract::Element;
use crate::ids::DeviceId;
use crate::issue_profile;
use crate::plan::Surplus;
use crate::policy::{NO_CLASS, PolicyInfo, Samples};
use crate::shape::DeviceShape;

/// The policy's name.
pub const NAME: &str = "smk-pw";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "each SM and its issue slots are partitioned, by dominant-resource fairness and by profiles",
    source: "SMK section 5.4; weights are ours",
    paper: "SMK 2016",
    promises_weights: false,
    weights: "a tenant's part of each SM is in proportion, and its issue slots follow from that",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Needed("issue slots have no quotas, as under smk-p-strict"),
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::GroupLimit,
        Element::Order,
        Element::Preemption,
        Element::Weight,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(SmkP::with_settings(device, shape, SETTINGS)),
};

/// The settings that add quotas to the paper's partition.
const SETTINGS: Settings = Settings {
    surplus: Surplus::Idle,
    extent: Extent::Alike,
    quotas: Some(issue_profile::Settings::DEFAULT),
    ..Settings::DEFAULT
};

/// Returns the policy without profiling SMs: `rates` are what the blocks of each row issue alone, in instructions over
/// cycles of residence, by the rows' numbers.
#[must_use]
pub fn with_rates(device: DeviceId, shape: &DeviceShape, rates: &[f64]) -> SmkP {
    SmkP::with_settings(device, shape, SETTINGS).with_issue_rates(rates)
}
