//! Each thread's stack of contexts; the topmost is current.

use super::{CUcontext, Context};
use crate::api::driver_api;
use crate::border::Out;
use crate::driver::Driver;
use crate::per_thread::PerThread;
use crate::status::{CudaResult, Status};
use std::cell::RefCell;
use std::sync::Arc;

driver_api! {
    needs Init;
    4000 cuCtxGetCurrent(context: *mut CUcontext) => get_current;
    4000 cuCtxSetCurrent(context: CUcontext) => set_current;
    2000 cuCtxPushCurrent(context: CUcontext) => push;
    4000 cuCtxPushCurrent_v2(context: CUcontext) => push;
    2000 cuCtxPopCurrent(context: *mut CUcontext) => pop;
    4000 cuCtxPopCurrent_v2(context: *mut CUcontext) => pop;
}

static STACK: PerThread<RefCell<Vec<Arc<Context>>>> = PerThread::new();

/// Looks at the thread's stack.
fn with_stack<T>(act: impl FnOnce(&mut Vec<Arc<Context>>) -> T) -> CudaResult<T> {
    STACK.with(|stack| act(&mut stack.borrow_mut()))
}

/// Returns the context that is current to the calling thread.
///
/// # Errors
/// [`Status::INVALID_CONTEXT`]: none is; [`Status::CONTEXT_IS_DESTROYED`].
#[inline]
pub fn current() -> CudaResult<Arc<Context>> {
    let context = with_stack(|stack| stack.last().map(Arc::clone))?;
    let context = context.ok_or(Status::INVALID_CONTEXT)?;
    if context.is_destroyed() {
        return Err(Status::CONTEXT_IS_DESTROYED);
    }
    Ok(context)
}

/// Returns the driver and the current context, in which nothing has faulted.
///
/// # Errors
/// As [`current`]; the fault's code.
#[inline]
pub fn usable() -> CudaResult<(&'static Driver, Arc<Context>)> {
    let driver = Driver::get()?;
    let context = current()?;
    context.check(driver)?;
    Ok((driver, context))
}

/// Makes a context current on top of the present one.
///
/// # Errors
/// [`Status::OUT_OF_MEMORY`]: the thread can have no stack of contexts.
pub fn push(context: Arc<Context>) -> CudaResult {
    with_stack(|stack| stack.push(context))
}

/// Pops the context if it is the current one, as destroying it does.
pub fn pop_if_top(context: &Arc<Context>) {
    let popped = with_stack(|stack| stack.pop_if(|top| Arc::ptr_eq(top, context)));
    drop(popped);
}

fn get_current(place: Out<CUcontext>) -> CudaResult {
    let context = with_stack(|stack| stack.last().map(|context| context.handle()))?;
    place.set(context.unwrap_or(CUcontext::NULL));
    Ok(())
}

/// Replaces the current context; null pops it.
fn set_current(context: CUcontext) -> CudaResult {
    let replacement = match context.is_null() {
        true => None,
        false => Some(Driver::get()?.contexts.get(context)?),
    };
    let replaced = with_stack(|stack| {
        let replaced = stack.pop();
        stack.extend(replacement);
        replaced
    })?;
    drop(replaced);
    Ok(())
}

fn pop(place: Option<Out<CUcontext>>) -> CudaResult {
    let context = with_stack(Vec::pop)?.ok_or(Status::INVALID_CONTEXT)?;
    Out::set_if(place.as_ref(), context.handle());
    Ok(())
}
