//! `plan` mode: what the block scheduler, the preemption engine and the warp schedulers make of a residency plan.

mod groups;
mod limits;
mod preempt;
mod quota;
mod rules;
