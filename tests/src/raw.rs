//! A tenant without a client library: it says what it likes, in the channel's own words.

use gridmux_channel::control::{CONTROL_VERSION, ControlReply, ControlRequest, Module, ModulePart};
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::regions::REGION_RINGS;
use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, Launch, Operation, SubmissionEntry,
};
use gridmux_channel::session::{CallError, Session};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The address at which [`RawTenant::map`] begins to put memory in the DMA space.
const IOVA: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;
/// A round of waiting, between looks at the connection.
const LIVENESS: Duration = Duration::from_millis(50);

/// Returns a launch of a module's first kernel, without parameters.
///
/// # Panics
/// If the module has no kernel.
#[must_use]
pub fn bare_launch(module: &Module, grid: [u32; 3], block: [u16; 3]) -> Operation {
    Operation::Launch(Launch {
        kernel: module.kernels[0].handle,
        grid,
        block,
        shared_bytes: 0,
        args_offset: 0,
        args_len: 0,
        is_cooperative: false,
    })
}

/// The tenant.
#[derive(Debug)]
pub struct RawTenant {
    /// Its control connection.
    pub session: Session,
    /// Its rings.
    pub rings: ClientRings,
    memory: File,
    next_cookie: u64,
    next_iova: u64,
}

impl RawTenant {
    /// Connects and says hello as a tenant.
    ///
    /// # Panics
    /// If the mediator refuses.
    #[must_use]
    pub fn connect(socket: &Path, tenant: &str) -> Self {
        Self::try_connect(socket, tenant).expect("a raw tenant is welcome")
    }

    /// Connects and says hello as a tenant, if the mediator lets it.
    ///
    /// # Errors
    /// The mediator's reason, or that it is away.
    ///
    /// # Panics
    /// If what the mediator hands over is no channel.
    pub fn try_connect(socket: &Path, tenant: &str) -> Result<Self, CallError> {
        Self::over(Session::connect(socket)?, tenant)
    }

    /// Says hello as a tenant over a connection, if the mediator lets it.
    ///
    /// # Errors
    /// The mediator's reason, or that it went away meanwhile.
    ///
    /// # Panics
    /// If what the mediator hands over is no channel.
    pub fn over(mut session: Session, tenant: &str) -> Result<Self, CallError> {
        let hello = ControlRequest::Hello {
            name: "raw".into(),
            client_version: CONTROL_VERSION,
            tenant: Some(tenant.to_owned()),
        };
        session.control(&hello)?;
        let (_, memory) = session.region_info(REGION_RINGS)?;
        let memory = memory.expect("the rings are memory");
        let doorbell = session.doorbell()?;
        let rings = ClientRings::map(&memory, doorbell).expect("the rings are valid");
        Ok(Self {
            session,
            rings,
            memory: File::from(memory),
            next_cookie: 1,
            next_iova: IOVA,
        })
    }

    /// Maps fresh memory with these bytes and says where.
    ///
    /// # Panics
    /// If the mediator refuses.
    pub fn map(&mut self, bytes: &[u8], protection: Protection) -> (u64, u64) {
        let size = (bytes.len().max(1) as u64).next_multiple_of(PAGE_BYTES);
        let memfd = SealedMemfd::create("raw", size).expect("a memfd");
        let file = File::from(memfd.as_fd().try_clone_to_owned().expect("a descriptor"));
        file.write_all_at(bytes, 0).expect("writing a memfd");
        let iova = self.next_iova;
        self.next_iova += size;
        self.session
            .dma_map(iova, size, 0, protection, memfd.as_fd())
            .expect("a mapping");
        (iova, size)
    }

    /// Loads a module.
    ///
    /// # Errors
    /// The mediator's reason.
    ///
    /// # Panics
    /// If the reply is of another kind.
    pub fn load(&mut self, ptx: &[u8]) -> Result<Module, CallError> {
        let (iova, _) = self.map(ptx, Protection::READ);
        let part = ModulePart {
            iova,
            len: ptx.len() as u64,
        };
        match self
            .session
            .control(&ControlRequest::LoadModule { parts: vec![part] })?
        {
            ControlReply::Loaded(module) => Ok(module),
            other => panic!("{other:?} where a module was due"),
        }
    }

    /// Returns the device memory.
    ///
    /// # Panics
    /// If there is none.
    pub fn alloc(&mut self, bytes: u64) -> u64 {
        match self.session.control(&ControlRequest::Alloc { bytes }) {
            Ok(ControlReply::Allocated { address }) => address,
            other => panic!("{other:?} where an address was due"),
        }
    }

    /// Submits on stream 0 and waits for the completion: its status, and the mediator's text if it failed.
    ///
    /// # Panics
    /// If the channel ends.
    pub fn submit(&mut self, operation: Operation) -> (CompletionStatus, String) {
        self.submit_on(0, operation)
    }

    /// Does as [`RawTenant::submit`], on a stream of any number.
    ///
    /// # Panics
    /// If the channel ends.
    pub fn submit_on(&mut self, stream: u16, operation: Operation) -> (CompletionStatus, String) {
        let cookie = self.push(stream, operation);
        let entry = self.await_completion();
        assert_eq!(entry.cookie, cookie, "completions come in order");
        let status = CompletionStatus::try_from(entry.status).expect("a known status");
        let text = match self.session.control(&ControlRequest::LastError { cookie }) {
            Ok(ControlReply::Text(text)) => text,
            other => panic!("{other:?} where a text was due"),
        };
        (status, text)
    }

    /// Submits without waiting; the cookie.
    ///
    /// # Panics
    /// If the ring is full.
    pub fn push(&mut self, stream: u16, operation: Operation) -> u64 {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.rings
            .push(&SubmissionEntry::new(operation, stream, cookie, 0))
            .expect("there is room");
        cookie
    }

    /// Waits for the next completion.
    ///
    /// # Panics
    /// If the channel ends.
    pub fn await_completion(&mut self) -> CompletionEntry {
        loop {
            if let Some(entry) = self.rings.wait(LIVENESS).expect("the channel is open") {
                return entry;
            }
            assert!(
                !self.session.is_closed(),
                "the mediator closed the channel of a raw tenant"
            );
        }
    }

    /// Writes into the ring memory, wherever and whatever.
    ///
    /// # Panics
    /// If the offset is outside it.
    pub fn scribble(&self, offset: u64, bytes: &[u8]) {
        self.memory
            .write_all_at(bytes, offset)
            .expect("ring memory can be written");
    }

    /// Returns whether the mediator has closed the channel.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.session.is_closed()
    }
}
