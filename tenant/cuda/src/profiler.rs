//! The switch for profilers: there is none to switch, so it does nothing, as documented for programs that run without
//! one.

use crate::api::driver_api;
use crate::context::current::usable;
use crate::status::CudaResult;

driver_api! {
    needs Init;
    4000 cuProfilerStart() => switch;
    4000 cuProfilerStop() => switch;
}

fn switch() -> CudaResult {
    usable().map(drop)
}
