//! Textures and surfaces of device memory.
//!
//! The mediator keeps an object for what it has admitted, but what uses it may lie in the ring still. So an object that
//! is dropped is told to the mediator when what was submitted before has ended: at once, or when the next one is
//! made or dropped, or memory is given back. Dropping waits for nothing, as `cuTexObjectDestroy` does not: a program
//! may end the kernel only after it.

use crate::error::ClientError;
use crate::gpu::Gpu;
use crate::link::{Link, LinkRef, unexpected};
use crate::pending::Submitted;
use gridmux_channel::control::object::Object;
use gridmux_channel::control::{ControlReply, ControlRequest};
use std::collections::VecDeque;

/// The most dropped objects that the mediator is not told of yet; making one more waits for the oldest.
const DROPPED: usize = 1024;

/// A texture or a surface. When dropped it ends, behind everything that was submitted.
#[derive(Debug)]
pub struct ObjectHandle {
    link: LinkRef,
    handle: u64,
}

/// Handles of objects that were dropped, each behind what was submitted before, oldest first.
#[derive(Debug, Default)]
pub(crate) struct DroppedObjects(VecDeque<(Submitted, u64)>);

impl ObjectHandle {
    /// Returns what stands for it in kernels, a parameter of 64 bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.handle
    }
}

impl Drop for ObjectHandle {
    fn drop(&mut self) {
        if let Ok(mut core) = self.link.enter() {
            let before = core.pending.submitted();
            core.dropped_objects.0.push_back((before, self.handle));
        }
        // On a lost connection the mediator has destroyed it already.
        let _ = self.link.destroy_dropped();
    }
}

impl Link {
    /// Tells the mediator of the dropped objects that nothing can use any more.
    pub(crate) fn destroy_dropped(&self) -> Result<(), ClientError> {
        loop {
            let mut core = self.look()?;
            let Some((before, handle)) = core.dropped_objects.0.front() else {
                return Ok(());
            };
            if !core.pending.have_ended(before) {
                return Ok(());
            }
            let handle = *handle;
            core.dropped_objects.0.pop_front();
            drop(core);
            self.control(&ControlRequest::DestroyObject { handle })?;
        }
    }
}

impl Link {
    /// Waits until so few are dropped that one more may be made.
    fn await_room(&self) -> Result<(), ClientError> {
        let mut core = self.enter()?;
        self.wait_for(&mut core, |core| {
            let all = &core.dropped_objects.0;
            let can_go = |(before, _): &(Submitted, u64)| core.pending.have_ended(before);
            (all.len() < DROPPED || all.front().is_some_and(can_go)).then_some(())
        })?;
        drop(core);
        self.destroy_dropped()
    }
}

impl Gpu {
    /// Makes a texture or a surface of texels in device memory, which must live as long as it does.
    ///
    /// # Errors
    /// The device has none; the texels are not all in one allocation or not aligned; too many; the device was lost.
    pub fn object(&self, object: Object) -> Result<ObjectHandle, ClientError> {
        self.link.await_room()?;
        match self.link.control(&ControlRequest::CreateObject(object))? {
            ControlReply::Object { handle } => Ok(ObjectHandle {
                link: self.link.clone(),
                handle,
            }),
            _ => Err(unexpected("CreateObject")),
        }
    }
}
