//! The reader of validation files, as the SM model's own tests have it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the SM model's own tests use the rest of it"
)]

#[path = "../../../hw-model/tests/hw_model/hardware/validation/read.rs"]
pub(crate) mod read;
#[path = "../../../hw-model/tests/hw_model/hardware/validation/schema.rs"]
pub(crate) mod schema;

pub(crate) use gridmux_workloads::microbench::ops;
