//! Tests of the SM model, one module for each contract.
//!
//! Rule: a test that needs a process of its own is a binary of its own, and says why at its top; all others are modules
//! of this one, so that the model is linked once.

mod support;

mod asynchronous;
mod barriers;
mod branches;
mod calls;
mod classes;
mod code;
mod control;
mod corpus;
mod faults;
mod found;
mod generated;
mod hardware;
mod hostile;
mod launch_cost;
mod launches;
mod levels;
mod lines;
mod linked;
mod numeric;
mod plan;
mod priority;
mod progress;
mod resident;
mod resumed;
mod runtime;
mod starvation;
mod threads;
mod timing;
mod workloads;
