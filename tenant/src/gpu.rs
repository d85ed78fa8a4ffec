//! The connection to the mediator, from which everything else is made.

use crate::buffer::Buffer;
use crate::error::ClientError;
use crate::link::{Link, LinkRef, unexpected};
use crate::module::Module;
use crate::pending::Pending;
use crate::staging::Staging;
use crate::stream::Stream;
use gridmux_channel::control::{
    CONTROL_VERSION, ControlReply, ControlRequest, DeviceFacts, MAX_NAME_BYTES, Usage, Welcome,
};
use gridmux_channel::regions::REGION_RINGS;
use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::session::Session;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A tenant's share of one GPU.
#[derive(Debug)]
pub struct Gpu {
    link: LinkRef,
    welcome: Welcome,
    path: PathBuf,
}

impl Gpu {
    /// Connects to the mediator that listens at `path`, under the name of this
    /// process.
    ///
    /// # Errors
    /// Nobody listens there, the versions do not fit, or the mediator refuses
    /// this tenant, with its reason.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, ClientError> {
        let name = std::env::current_exe().ok();
        let name = name
            .as_deref()
            .and_then(Path::file_name)
            .unwrap_or_default();
        Self::connect_as(path, &name.to_string_lossy())
    }

    /// [`Gpu::connect`] under a name of the tenant's choice (cut to 64 bytes).
    ///
    /// # Errors
    /// As [`Gpu::connect`].
    pub fn connect_as(path: impl AsRef<Path>, name: &str) -> Result<Self, ClientError> {
        let path = path.as_ref().to_path_buf();
        let mut session = Session::connect(&path)?;
        let name = name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned();
        let hello = ControlRequest::Hello {
            name,
            client_version: CONTROL_VERSION,
        };
        let ControlReply::Welcome(welcome) = session.control(&hello)? else {
            return Err(unexpected("Hello"));
        };
        let (_, memfd) = session.region_info(REGION_RINGS)?;
        let memfd = memfd.ok_or_else(|| unexpected("the rings"))?;
        let doorbell = session.doorbell()?;
        let rings = ClientRings::map(&memfd, doorbell)?;
        let staging = Staging::new(&mut session)?;
        let pending = Pending::with_capacity(rings.layout().completion_entries() as usize);
        let welcome = *welcome;
        let link = Link {
            session,
            rings,
            pending,
            staging,
            packed: Vec::with_capacity(4096),
        };
        Ok(Self {
            link: Rc::new(RefCell::new(link)),
            welcome,
            path,
        })
    }

    /// Connects anew after the device was lost. Buffers, modules, streams and
    /// events of the old connection are of no more use.
    ///
    /// # Errors
    /// As [`Gpu::connect`]; a device host that is being replaced may refuse
    /// for a moment, so try again.
    pub fn reconnect(&self) -> Result<Self, ClientError> {
        Self::connect_as(&self.path, &self.welcome.name)
    }

    /// What the device is.
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        &self.welcome.device
    }

    /// What the mediator said about this tenant.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Device memory of `bytes` bytes; it is given back when dropped.
    ///
    /// # Errors
    /// Over the tenant's limit, or out of memory.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, ClientError> {
        let reply = self
            .link
            .borrow_mut()
            .control(&ControlRequest::Alloc { bytes })?;
        match reply {
            ControlReply::Allocated { address } => {
                Ok(Buffer::new(self.link.clone(), address, bytes))
            }
            _ => Err(unexpected("Alloc")),
        }
    }

    /// Loads a PTX module.
    ///
    /// # Errors
    /// The mediator's reason, with line and column where the PTX is wrong.
    pub fn module(&self, ptx: &[u8]) -> Result<Module, ClientError> {
        Module::load(&self.link, ptx)
    }

    /// A new stream.
    ///
    /// # Errors
    /// Over the tenant's limit.
    pub fn stream(&self) -> Result<Stream, ClientError> {
        let reply = self
            .link
            .borrow_mut()
            .control(&ControlRequest::CreateStream)?;
        match reply {
            ControlReply::Stream(id) => Ok(Stream::new(self.link.clone(), id)),
            _ => Err(unexpected("CreateStream")),
        }
    }

    /// What this tenant uses.
    ///
    /// # Errors
    /// The connection broke.
    pub fn usage(&self) -> Result<Usage, ClientError> {
        match self.link.borrow_mut().control(&ControlRequest::Usage)? {
            ControlReply::Usage(usage) => Ok(usage),
            _ => Err(unexpected("Usage")),
        }
    }

    /// Waits until any submission ends ([`crate::Event::is_done`] tells which);
    /// false if none is in flight.
    ///
    /// # Errors
    /// The device was lost.
    pub fn wait_any(&self) -> Result<bool, ClientError> {
        self.link.borrow_mut().wait_one()
    }

    /// Says that the tenant spends time of its own from now until its next
    /// submission: the virtual clock of a modelled device need not wait for it.
    pub fn think(&self) {
        self.link.borrow_mut().think();
    }

    /// Says that the tenant is about to submit: a modelled device's virtual clock holds (for a bounded wall time)
    /// until the tenant waits or thinks. Several tenants that resume before any of them submits start at the same
    /// instant.
    pub fn resume(&self) {
        self.link.borrow_mut().resume();
    }
}
