//! Contracts across rooms, each of them held against a whole service, or against the model as the service uses it.
//!
//! Rules:
//! - A test has a service of its own, and what it does to a process it does to one that it started: tests run side by
//!   side in one process.
//! - No test depends on how busy the machine is. Where one waits, it waits for a state; where it compares times, they
//!   are those of the virtual clock.

mod chaos;
mod client;
mod clients;
mod compilation;
mod cuda;
mod fairness;
mod faults;
mod fenced;
mod functional;
mod functional_device;
mod gpu_check;
mod gpu_check_service;
mod host_memory;
mod linking;
mod live;
mod offenders;
mod pauses;
mod policy_set;
mod ranges;
mod repeatable;
mod security;
mod somebody_else;
mod supervisor;
mod tenants_come_and_go;
mod threads;
