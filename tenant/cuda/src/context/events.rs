//! Events of a whole context: recorded behind all that was submitted in it, and waited for by all that will be.

use super::Context;
use crate::api::driver_api;
use crate::driver::Driver;
use crate::event::Event;
use crate::graph::capture;
use crate::registry::Handle;
use crate::status::{CudaResult, Status};
use std::sync::Arc;

driver_api! {
    needs Init;
    12050 cuCtxRecordEvent(context: Handle<Context>, event: Handle<Event>) => record;
    12050 cuCtxWaitEvent(context: Handle<Context>, event: Handle<Event>) => wait;
}

fn record(context: Arc<Context>, event: Arc<Event>) -> CudaResult {
    let driver = Driver::get()?;
    context.check(driver)?;
    if event.context() != context.handle() {
        return Err(Status::INVALID_HANDLE);
    }
    capture::check_context(context.handle())?;
    let stream = context.legacy(driver)?;
    let lanes = context.lanes.all();
    event.record_on(driver, &stream, |own| {
        for lane in &lanes {
            let mark = lane.stream.barrier()?;
            own.wait_mark(mark)?;
        }
        Ok(())
    })
}

fn wait(context: Arc<Context>, event: Arc<Event>) -> CudaResult {
    let driver = Driver::get()?;
    context.check(driver)?;
    capture::check_context(context.handle())?;
    match event.mark() {
        Some(mark) => context.lanes.wait_mark(driver, mark),
        None => Ok(()),
    }
}
