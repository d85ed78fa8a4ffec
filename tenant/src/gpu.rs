//! The connection to the mediator, from which everything else is made.

use crate::buffer::Buffer;
use crate::error::ClientError;
use crate::link::{Link, LinkRef, unexpected};
use crate::module::Module;
use crate::origin::Origin;
use crate::staging::Staging;
use crate::stream::Stream;
use crate::typed::{Plain, TypedBuffer};
use gridmux_channel::control::{
    CONTROL_VERSION, ControlReply, ControlRequest, DeviceFacts, MAX_NAME_BYTES,
    MAX_TENANT_NAME_BYTES, Usage, Welcome,
};
use gridmux_channel::regions::REGION_RINGS;
use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::session::{CallError, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long connections that end before the mediator has let the client in are followed by another attempt: while a
/// device host is replaced, those that the old one had accepted end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before the second attempt; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Returns the file name of the running program.
fn program_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(Path::file_name);
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns whether an attempt to connect failed because the mediator's end of the connection was closed.
fn is_cut_off(error: &ClientError) -> bool {
    matches!(error, ClientError::Call(CallError::Closed))
}

/// A tenant's share of one GPU. It and everything made from it may be used by
/// any number of threads at once.
#[derive(Debug)]
pub struct Gpu {
    pub(crate) link: LinkRef,
    welcome: Welcome,
    path: PathBuf,
}

/// Device memory as this tenant sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// The most it may hold, in bytes.
    pub total_bytes: u64,
    /// What it may still allocate, in bytes, as long as other tenants leave it
    /// there.
    pub free_bytes: u64,
}

/// The text that kernels printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// The text, in the order in which it was printed.
    pub text: Vec<u8>,
    /// The number of bytes that found no room behind it.
    pub lost_bytes: u64,
}

/// The options of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Name under which operators see this client, cut to 64 bytes; when empty, the program's.
    pub name: String,
    /// Tenant that the client is accounted to; without it, the first one of the service's configuration that this
    /// process may be.
    pub tenant: Option<String>,
}

impl Gpu {
    /// Connects to the mediator that listens at `path`, under the name of this
    /// process. A connection that the mediator closes before it has let this
    /// client in, as happens while a device host is replaced, is made again,
    /// for two seconds.
    ///
    /// # Errors
    /// Nobody listens there, the versions do not fit, or the mediator refuses
    /// this tenant, with its reason.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, ClientError> {
        Self::connect_to(path, ConnectOptions::default())
    }

    /// Connects as [`Gpu::connect`] does, under a name of the client's choice (cut to 64 bytes).
    ///
    /// # Errors
    /// As [`Gpu::connect`].
    pub fn connect_as(path: impl AsRef<Path>, name: &str) -> Result<Self, ClientError> {
        let options = ConnectOptions {
            name: name.to_owned(),
            tenant: None,
        };
        Self::connect_to(path, options)
    }

    /// Connects as [`Gpu::connect`] does, as a tenant and under a name of the client's choice.
    ///
    /// # Errors
    /// As [`Gpu::connect`]; a tenant that this process may not be, with those that it may be.
    pub fn connect_to(
        path: impl AsRef<Path>,
        options: ConnectOptions,
    ) -> Result<Self, ClientError> {
        let path = path.as_ref().to_path_buf();
        if let Some(name) = &options.tenant
            && !(1..=MAX_TENANT_NAME_BYTES).contains(&name.len())
        {
            return Err(ClientError::TenantName {
                name: name.clone(),
                most: MAX_TENANT_NAME_BYTES,
            });
        }
        let name = match options.name.as_str() {
            "" => program_name(),
            name => name.to_owned(),
        };
        let hello = ControlRequest::Hello {
            name: name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned(),
            client_version: CONTROL_VERSION,
            tenant: options.tenant,
        };
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            match Self::attempt(&path, &hello) {
                Err(error) if is_cut_off(&error) && Instant::now() + pause < deadline => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                result => return result,
            }
        }
    }

    fn attempt(path: &Path, hello: &ControlRequest) -> Result<Self, ClientError> {
        let mut session = Session::connect(path)?;
        let ControlReply::Welcome(welcome) = session.control(hello)? else {
            return Err(unexpected("Hello"));
        };
        let (_, memfd) = session.region_info(REGION_RINGS)?;
        let memfd = memfd.ok_or_else(|| unexpected("the rings"))?;
        let doorbell = session.doorbell()?;
        let rings = ClientRings::map(&memfd, doorbell)?;
        let staging = Staging::new(&mut session)?;
        let origin = Origin::here().map_err(gridmux_channel::memory::MemoryError::from)?;
        Ok(Self {
            link: Arc::new(Link::new(session, rings, staging, origin)),
            welcome: *welcome,
            path: path.to_owned(),
        })
    }

    /// Connects anew after the device was lost. Buffers, modules, streams and
    /// events of the old connection are of no more use.
    ///
    /// # Errors
    /// As [`Gpu::connect`].
    pub fn reconnect(&self) -> Result<Self, ClientError> {
        let options = ConnectOptions {
            name: self.welcome.name.clone(),
            tenant: Some(self.welcome.tenant.clone()),
        };
        Self::connect_to(&self.path, options)
    }

    /// Returns what the device is.
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        &self.welcome.device
    }

    /// Returns what the mediator said about this tenant.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Allocates `bytes` bytes of device memory; it is given back when dropped.
    ///
    /// # Errors
    /// No bytes, over the tenant's limit, or out of memory.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, ClientError> {
        match self.link.control(&ControlRequest::Alloc { bytes })? {
            ControlReply::Allocated { address } => {
                Ok(Buffer::allocation(self.link.clone(), address, bytes))
            }
            _ => Err(unexpected("Alloc")),
        }
    }

    /// Allocates device memory for `len` values of `T`; it is given back when dropped.
    ///
    /// # Errors
    /// As [`Gpu::alloc`]; `T` has no size.
    pub fn alloc_of<T: Plain>(&self, len: u64) -> Result<TypedBuffer<T>, ClientError> {
        let bytes = len.saturating_mul(size_of::<T>() as u64);
        TypedBuffer::of(self.alloc(bytes)?)
    }

    /// Returns how much device memory there is for this tenant, and how much of it is
    /// free.
    ///
    /// # Errors
    /// The connection broke.
    pub fn memory_info(&self) -> Result<MemoryInfo, ClientError> {
        let usage = self.usage()?;
        let total_bytes = usage
            .memory_limit_bytes
            .min(self.welcome.device.memory_bytes);
        Ok(MemoryInfo {
            total_bytes,
            free_bytes: usage.memory_free_bytes.min(total_bytes),
        })
    }

    /// Loads a PTX module.
    ///
    /// # Errors
    /// The mediator's reason, with line and column where the PTX is wrong.
    pub fn module(&self, ptx: &[u8]) -> Result<Module, ClientError> {
        Module::load(&self.link, &[ptx])
    }

    /// Links PTX modules into one and loads it: what one declares `.extern`
    /// another defines.
    ///
    /// # Errors
    /// The mediator's reason, which names the modules by their place in the
    /// list: the PTX of one is wrong, a name is defined twice or not at all, or
    /// there are none or too many.
    pub fn module_of(&self, parts: &[&[u8]]) -> Result<Module, ClientError> {
        Module::load(&self.link, parts)
    }

    /// Makes a stream.
    ///
    /// # Errors
    /// Over the tenant's limit.
    pub fn stream(&self) -> Result<Stream, ClientError> {
        match self.link.control(&ControlRequest::CreateStream)? {
            ControlReply::Stream(id) => Ok(Stream::new(self.link.clone(), id)),
            _ => Err(unexpected("CreateStream")),
        }
    }

    /// Returns what this tenant uses.
    ///
    /// # Errors
    /// The connection broke.
    pub fn usage(&self) -> Result<Usage, ClientError> {
        match self.link.control(&ControlRequest::Usage)? {
            ControlReply::Usage(usage) => Ok(usage),
            _ => Err(unexpected("Usage")),
        }
    }

    /// Takes what this client's kernels printed with `printf` since the last
    /// call. What a launch printed is there once it has ended.
    ///
    /// # Errors
    /// The connection broke.
    pub fn take_printed(&self) -> Result<Printed, ClientError> {
        match self.link.control(&ControlRequest::TakePrinted)? {
            ControlReply::Printed { text, lost_bytes } => Ok(Printed { text, lost_bytes }),
            _ => Err(unexpected("TakePrinted")),
        }
    }

    /// Waits until any submission of any thread ends
    /// ([`crate::Event::is_done`] tells which); false if none is in flight.
    ///
    /// # Errors
    /// The device was lost.
    pub fn wait_any(&self) -> Result<bool, ClientError> {
        self.link.wait_any()
    }

    /// Says that this thread spends time of its own from now until its next
    /// submission: the virtual clock of a modelled device need not wait for it.
    /// Without other threads that is so for the whole tenant.
    pub fn think(&self) {
        self.link.think();
    }

    /// Says that this thread is about to submit: a modelled device's virtual clock holds (for a bounded wall time)
    /// until it waits or thinks. Several tenants that resume before any of them submits start at the same
    /// instant.
    pub fn resume(&self) {
        self.link.resume();
    }
}
