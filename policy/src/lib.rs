//! Policies, plans, and how a plan reaches its readers.
//!
//! Every policy is a function from what has been observed ([`event::Event`]) to a residency plan
//! ([`plan::Plan`]): how many thread blocks of which kernel may reside on which group of streaming
//! multiprocessors (SMs), in which order, with what share of issue slots, and how an SM that holds
//! too many gives them up.
//!
//! Rules of this room:
//! - It knows nothing of PTX, sockets, BPF or devices; time and blocks reach it as numbers.
//! - A policy is written once and every executor obeys it; placement belongs to the executor,
//!   prediction to the policy.
//! - Publishing and reading a plan takes no lock ([`publish`]), and events reach the policy over a
//!   bounded lock-free ring ([`spsc`]).

pub mod books;
pub mod event;
pub mod ids;
pub mod ledger;
pub mod metrics;
pub mod partition;
pub mod plan;
pub mod plan_builder;
pub mod policies;
pub mod policy;
pub mod publish;
pub mod shape;
pub mod share;
pub mod share_control;
pub mod share_meter;
pub mod sm_set;
pub mod spsc;
mod sync;
pub mod units;

pub use event::Event;
pub use ids::{BlockIndex, DeviceId, GroupId, KernelId, SmId, TenantId};
pub use plan::{Fill, GiveUp, GroupPlan, Plan, Row, RowLimits};
pub use plan_builder::{PlanBuilder, PlanError};
pub use policy::{Policy, PolicyInfo, UnknownPolicy, by_name, policies as all_policies};
pub use publish::{PlanReader, Publisher};
pub use shape::{BlockShape, DeviceShape};
pub use share::Share;
pub use share_meter::ShareMeter;
pub use sm_set::SmSet;
pub use units::{Bytes, Cycles, Nanos};
