//! The command as its users run it: every test starts processes of `gridmux` and looks at what they leave.
//!
//! Rules:
//! - Whatever a test starts lies in a folder and under an instance name of its own, because tests run side by side.
//! - No test changes its own process: environment, working folder, limits and signals are set for the process that it
//!   starts.

mod accounts;
mod command;
mod demo;
mod doctor;
mod documents;
mod first_day;
mod metrics;
mod monitoring;
mod packaging;
mod pauses;
mod probes;
mod prog;
mod ptx;
mod run;
mod service;
mod sim_compare;
mod sim_cooperative;
mod sim_figures;
mod sim_gpus;
mod sim_kernel;
mod sim_mix;
mod sim_mix_given;
mod sim_mix_notes;
mod sim_trace;
mod systemd;
mod tools;
mod top;
mod trace;
mod usage;
mod width;
