//! Policies, plans, and how a plan reaches its readers.
//!
//! Every policy is a function from what has been observed ([`event::Event`]) to a residency plan
//! ([`plan::Plan`]): how many thread blocks of which row (tenant, kernel, block shape) may reside on
//! which group of streaming multiprocessors (SMs), in which order, with what share of issue slots,
//! how an SM that holds too many gives them up, and what a tenant may hold in all.
//!
//! Rules of this room:
//! - It knows nothing of PTX, sockets, BPF or devices; time and blocks reach it as numbers.
//! - A policy is written once and every executor obeys it, as well as it says ([`contract`]);
//!   placement belongs to the executor, prediction to the policy.
//! - Publishing and reading a plan takes no lock, and events reach the policy over a bounded
//!   lock-free ring (`gridmux-sync`).

pub mod ages;
pub mod blocks;
pub mod book;
pub mod cap_table;
pub mod class;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod contract;
pub mod curves;
pub mod division;
pub mod event;
pub mod exclusive;
pub mod guard;
pub mod hash;
pub mod ids;
pub mod issue_profile;
pub mod layout;
pub mod learner;
pub mod loops;
pub mod metrics;
pub mod partition;
pub mod plan;
pub mod plan_builder;
pub mod policies;
pub mod policy;
pub mod predict;
pub mod profile_file;
pub mod profiles;
pub mod readings;
pub mod roofline;
pub mod scaling;
pub mod shape;
pub mod share_control;
pub mod share_meter;
pub mod side_by_side;
pub mod sm_set;
pub mod terms;
pub mod units;
pub mod water_filling;

pub use class::{Class, UnknownClass};
pub use contract::{Element, Enforcement};
pub use event::Event;
pub use ids::{BlockIndex, DeviceId, GroupId, KernelKey, ProfileKey, RowId, SmId, TenantId};
pub use learner::Learner;
pub use plan::{
    Cell, DispatchOrder, Group, NO_CAP, Plan, PlanReader, PlanRow, Preemption, Publisher, Stop,
    Surplus,
};
pub use plan_builder::{PlanBuilder, PlanError};
pub use policy::{
    Policy, PolicyInfo, Samples, UnknownPolicy, Watch, by_name, policies as all_policies,
};
pub use profile_file::{ProfileFile, ProfileFileError, ProfiledDevice};
pub use profiles::{Profile, Profiles};
pub use shape::{BlockShape, DeviceShape, Held, SmUnits};
pub use share_meter::{ShareMeter, ShareReading};
pub use sm_set::SmSet;
pub use units::{Bytes, Cycles, Nanos};
