//! SMK on demand: tenants' shares of the whole device are equalised, whichever SMs their blocks are on.
//!
//! Source: SMK (Wang et al., HPCA 2016) section 5.3.1, Figure 4. Whoever holds the least of the device is next to get a
//! block, and takes it from who holds the most where that brings the two closer. The plan says where this ends: each
//! tenant's limit on the device is what dominant-resource fairness gives it of all SMs' resources taken together
//! (Figure 6 on one large SM), and no limit binds on an SM. Room that nobody below his limit can use is lent; who waits
//! below his limit gets it back at once, by switching blocks out of tenants beyond theirs.
//!
//! As the paper finds (Figure 5), many SMs may then hold blocks of one kernel only. Tenants have weights here.

use super::smk_p::{Extent, Settings, SmkP};
use crate::contract::Element;
use crate::plan::Surplus;
use crate::policy::{NO_CLASS, PolicyInfo, Samples};

/// The policy's name.
pub const NAME: &str = "smk";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "the whole device is shared by weighted dominant-resource fairness, whichever SMs blocks are on",
    source: "SMK section 5.3.1, Figure 4; weights are ours",
    paper: "SMK 2016",
    promises_weights: false,
    weights: "a tenant's limit on the device is in proportion, but where its blocks are is left open",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[
        Element::DeviceLimit,
        Element::Order,
        Element::Preemption,
        Element::Stop,
        Element::Surplus,
    ],
    make: |device, shape, _| Box::new(SmkP::with_settings(device, shape, SETTINGS)),
};

/// The settings that make SMK-P's partition one of the device as a whole.
const SETTINGS: Settings = Settings {
    surplus: Surplus::Lend,
    extent: Extent::Device,
    ..Settings::DEFAULT
};
