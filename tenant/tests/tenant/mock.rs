//! A mediator in a thread, as small as the client's tests allow: it executes
//! every submission at once on a flat memory and knows three kernels.
//!
//! It stands on the channel's own server and rings, so that the client is
//! tested over the real protocol.

use gridmux_channel::Errno;
use gridmux_channel::control::{
    ControlCode, ControlError, ControlReply, ControlRequest, DeviceFacts, GlobalInfo, KernelInfo,
    Mailbox, Module, ModulePart, ParamInfo, Usage, Welcome,
};
use gridmux_channel::memory::{MemoryError, TenantBuffer};
use gridmux_channel::regions::{self, REGION_CONTROL, REGION_FACTS, REGION_RINGS};
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, Copy, DeviceCopy, HostState, Launch, Memset, Operation,
    RingLayout, SubmissionEntry, TenantState,
};
use gridmux_channel::server::{Connection, Handler, IoFd, Status};
use gridmux_channel::wire::device::{DeviceInfo, RegionDescription};
use gridmux_channel::wire::transfer::{DmaMap, DmaUnmap};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read as _;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Where the mock's device memory starts.
const MEMORY_BASE: u64 = 0x7000_0000;
const MEMORY_BYTES: usize = 64 << 20;

/// A mediator that serves connections one after the other.
pub(crate) struct Mock {
    pub(crate) path: PathBuf,
    /// Device memory that tenants hold, in bytes.
    pub(crate) held_bytes: Arc<AtomicU64>,
    pub(crate) knobs: Arc<Knobs>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

/// What tests turn and read while it serves.
#[derive(Default)]
pub(crate) struct Knobs {
    /// Submissions are taken, but not executed before this is false again.
    pub(crate) hold: AtomicBool,
    /// Connections that are closed before one is served.
    pub(crate) to_cut: AtomicU64,
    /// What the tenant's state word says: 1 running, 2 waiting, 3 thinking.
    pub(crate) state: AtomicU64,
    /// What the rings say when it closes the connection that it serves, which it does once this is set.
    pub(crate) farewell: OnceLock<HostState>,
}

impl Mock {
    /// Starts it on a socket of its own.
    pub(crate) fn start() -> Self {
        Self::start_cutting(0)
    }

    /// Starts it so that it closes this many connections before it serves one, as while a device host is replaced.
    pub(crate) fn start_cutting(connections: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let held_bytes = Arc::new(AtomicU64::new(0));
        let (theirs, held) = (stop.clone(), held_bytes.clone());
        let knobs = Arc::new(Knobs::default());
        knobs.to_cut.store(connections, Ordering::Relaxed);
        let turned = knobs.clone();
        let thread = thread::spawn(move || {
            while !theirs.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((socket, _)) if turned.to_cut.load(Ordering::Relaxed) > 0 => {
                        turned.to_cut.fetch_sub(1, Ordering::Relaxed);
                        // With what was said unread, which the client sees as another error, and read.
                        if turned.to_cut.load(Ordering::Relaxed) % 2 == 0 {
                            let _ = (&socket).read(&mut [0; 256]);
                        }
                    }
                    Ok((socket, _)) => {
                        let connection = Connection::new(socket).unwrap();
                        serve(connection, Device::new(held.clone()), &turned, &theirs);
                    }
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Self {
            path,
            held_bytes,
            knobs,
            stop,
            thread: Some(thread),
            _folder: folder,
        }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err());
        assert!(!failed || thread::panicking(), "the mock mediator panicked");
    }
}

fn serve(mut connection: Connection, mut device: Device, knobs: &Knobs, stop: &AtomicBool) {
    let mut taken = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        if connection
            .on_readable(&mut device)
            .map_or(true, |status| status == Status::Closed)
        {
            break;
        }
        if connection.wants_write() {
            connection.on_writable().unwrap();
        }
        while let Some(entry) = device.rings.pop().unwrap() {
            let args = device.args_of(&entry);
            taken.push_back((entry, args));
        }
        while !knobs.hold.load(Ordering::Relaxed)
            && let Some((entry, args)) = taken.pop_front()
        {
            device.execute(&entry, &args);
        }
        knobs.state.store(
            match device.rings.tenant_state() {
                TenantState::Running => 1,
                TenantState::Waiting => 2,
                TenantState::Thinking => 3,
            },
            Ordering::Relaxed,
        );
        device.rings.wake_if_parked();
        if let Some(state) = knobs.farewell.get() {
            device.rings.set_host_state(*state);
            break;
        }
        if device.lost {
            device.rings.set_host_state(HostState::DeviceLost);
            break;
        }
        thread::yield_now();
    }
    let held: u64 = device.allocated.values().sum();
    device.held_bytes.fetch_sub(held, Ordering::Relaxed);
}

struct Device {
    rings: HostRings,
    dma: BTreeMap<u64, TenantBuffer>,
    mailbox: Mailbox,
    memory: Vec<u8>,
    next_address: u64,
    allocated: HashMap<u64, u64>,
    held_bytes: Arc<AtomicU64>,
    streams: u16,
    errors: HashMap<u64, String>,
    launches: u64,
    clock_ns: u64,
    lost: bool,
}

impl Device {
    fn new(held_bytes: Arc<AtomicU64>) -> Self {
        let layout = RingLayout::new(16, 32, 4096).unwrap();
        Self {
            rings: HostRings::create(layout).unwrap(),
            dma: BTreeMap::new(),
            mailbox: Mailbox::default(),
            memory: vec![0; MEMORY_BYTES],
            next_address: MEMORY_BASE,
            allocated: HashMap::new(),
            held_bytes,
            streams: 0,
            errors: HashMap::new(),
            launches: 0,
            clock_ns: 0,
            lost: false,
        }
    }

    /// Returns the arguments of a launch, which are the tenant's again once the next entry is taken.
    fn args_of(&self, entry: &SubmissionEntry) -> Vec<u8> {
        let Ok(Operation::Launch(launch)) = entry.decode() else {
            return Vec::new();
        };
        let mut args = vec![0; launch.args_len as usize];
        self.rings.read_args(launch.args_offset, &mut args).unwrap();
        args
    }

    fn execute(&mut self, entry: &SubmissionEntry, args: &[u8]) {
        let start = self.clock_ns;
        self.clock_ns += 1000;
        let result = match entry.decode().unwrap() {
            Operation::Launch(launch) => self.launch(&launch, args),
            Operation::CopyToDevice(copy) => self.copy(&copy, TenantBuffer::read_at),
            Operation::CopyFromDevice(copy) => self.copy(&copy, |buffer, offset, memory| {
                buffer.write_at(offset, memory)
            }),
            Operation::CopyOnDevice(copy) => self.copy_on_device(&copy),
            Operation::Memset(memset) => self.memset(&memset),
            // Everything is executed in the order of submission, so that what is waited for is over.
            Operation::Wait { .. } => Ok(()),
            Operation::Barrier => Ok(()),
            // A client of the mock's releases its holds before it waits for anything.
            Operation::Hold { .. } => Ok(()),
        };
        let status = match result {
            Ok(()) => CompletionStatus::Ok,
            Err((status, text)) => {
                self.errors.insert(entry.cookie(), text);
                status
            }
        };
        let done = CompletionEntry::new(entry.cookie(), status, start, self.clock_ns);
        self.rings.push_completion(done).unwrap();
    }

    fn copy(
        &mut self,
        copy: &Copy,
        act: impl FnOnce(&TenantBuffer, u64, &mut [u8]) -> Result<(), MemoryError>,
    ) -> Result<(), (CompletionStatus, String)> {
        let range = self.range(copy.address, copy.len)?;
        let bad = |text| (CompletionStatus::BadIova, text);
        let (buffer, offset) = buffer_at(&self.dma, copy.iova).map_err(bad)?;
        act(buffer, offset, &mut self.memory[range]).map_err(|error| bad(error.to_string()))
    }

    fn copy_on_device(&mut self, copy: &DeviceCopy) -> Result<(), (CompletionStatus, String)> {
        let (from, to) = (
            self.range(copy.from, copy.len)?,
            self.range(copy.to, copy.len)?,
        );
        self.memory.copy_within(from, to.start);
        Ok(())
    }

    fn memset(&mut self, memset: &Memset) -> Result<(), (CompletionStatus, String)> {
        let range = self.range(memset.address, memset.len)?;
        let width = memset.width.bytes() as usize;
        for element in self.memory[range].chunks_exact_mut(width) {
            element.copy_from_slice(&memset.value.to_le_bytes()[..width]);
        }
        Ok(())
    }

    fn range(
        &self,
        address: u64,
        len: u64,
    ) -> Result<std::ops::Range<usize>, (CompletionStatus, String)> {
        let start = usize::try_from(address.wrapping_sub(MEMORY_BASE)).unwrap();
        let end = start.checked_add(usize::try_from(len).unwrap());
        match end {
            Some(end) if end <= self.memory.len() => Ok(start..end),
            _ => Err((
                CompletionStatus::BadAddress,
                format!("{address:#x} is not allocated"),
            )),
        }
    }

    /// Executes `scale(pointer, count, factor)`, `fault()`, `lose_device()`.
    fn launch(&mut self, launch: &Launch, args: &[u8]) -> Result<(), (CompletionStatus, String)> {
        self.launches += 1;
        if launch.grid.contains(&0) {
            return Err((
                CompletionStatus::BadShape,
                "kernel `scale`: a grid of zero".into(),
            ));
        }
        match launch.kernel {
            1 => {
                let pointer = u64::from_le_bytes(args[..8].try_into().unwrap());
                let count = u32::from_le_bytes(args[8..12].try_into().unwrap());
                let factor = f32::from_le_bytes(args[12..16].try_into().unwrap());
                let range = self.range(pointer, u64::from(count) * 4)?;
                for word in self.memory[range].chunks_mut(4) {
                    let value = f32::from_le_bytes((&*word).try_into().unwrap()) * factor;
                    word.copy_from_slice(&value.to_le_bytes());
                }
                Ok(())
            }
            2 => Err((
                CompletionStatus::MemoryFault,
                "kernel `fault`: read at 0x10".into(),
            )),
            _ => {
                self.lost = true;
                Err((CompletionStatus::DeviceLost, "the device failed".into()))
            }
        }
    }

    fn control(&mut self, request: ControlRequest) -> ControlReply {
        let error = |code, text: &str| ControlReply::Error(ControlError::new(code, text));
        match request {
            ControlRequest::Hello {
                tenant: Some(tenant),
                ..
            } if !["mock", "mine"].contains(&tenant.as_str()) => {
                let text = format!("this client may not be tenant `{tenant}`");
                error(ControlCode::Denied, &text)
            }
            ControlRequest::Hello { name, tenant, .. } => {
                ControlReply::Welcome(Box::new(Welcome {
                    tenant_id: 1,
                    name,
                    tenant: tenant.unwrap_or_else(|| "mock".into()),
                    client: 17,
                    weight: 2,
                    memory_limit_bytes: MEMORY_BYTES as u64,
                    device: DeviceFacts {
                        name: "mock".into(),
                        sms: 4,
                        memory_bytes: MEMORY_BYTES as u64,
                        ..DeviceFacts::default()
                    },
                }))
            }
            ControlRequest::Alloc { bytes } if bytes == 0 || bytes > MEMORY_BYTES as u64 => {
                error(ControlCode::OutOfMemory, "out of device memory")
            }
            ControlRequest::Alloc { bytes } => {
                let address = self.next_address;
                self.next_address += bytes.next_multiple_of(256);
                self.allocated.insert(address, bytes);
                self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
                ControlReply::Allocated { address }
            }
            ControlRequest::Free { address } => match self.allocated.remove(&address) {
                Some(bytes) => {
                    self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
                    ControlReply::Done
                }
                None => error(ControlCode::NotFound, "no such allocation"),
            },
            ControlRequest::LoadModule { parts } => self.load(&parts),
            ControlRequest::CreateStream => {
                self.streams += 1;
                ControlReply::Stream(self.streams)
            }
            ControlRequest::LastError { cookie } => {
                ControlReply::Text(self.errors.remove(&cookie).unwrap_or_default())
            }
            ControlRequest::Usage => ControlReply::Usage(Usage {
                memory_bytes: self.allocated.values().sum(),
                memory_limit_bytes: MEMORY_BYTES as u64 / 2,
                memory_free_bytes: MEMORY_BYTES as u64 / 2 - self.allocated.values().sum::<u64>(),
                launches: self.launches,
                ..Usage::default()
            }),
            ControlRequest::TakePrinted => ControlReply::Printed {
                text: b"printed".to_vec(),
                lost_bytes: 3,
            },
            ControlRequest::MapMemory { .. }
            | ControlRequest::MapVariable { .. }
            | ControlRequest::CreateObject(_)
            | ControlRequest::DestroyObject { .. }
            | ControlRequest::Paging(_) => {
                error(ControlCode::Unsupported, "the mock has none of it")
            }
            ControlRequest::UnloadModule { .. } | ControlRequest::DestroyStream { .. } => {
                ControlReply::Done
            }
        }
    }

    fn load(&self, parts: &[ModulePart]) -> ControlReply {
        let mut text = Vec::new();
        for part in parts {
            let mut bytes = vec![0; usize::try_from(part.len).unwrap()];
            let read = buffer_at(&self.dma, part.iova).and_then(|(buffer, offset)| {
                let read = buffer.read_at(offset, &mut bytes);
                read.map_err(|error| error.to_string())
            });
            if let Err(problem) = read {
                return ControlReply::Error(ControlError::new(ControlCode::BadIova, problem));
            }
            text.extend(bytes);
        }
        if !text.starts_with(b".version") {
            let text = "line 1, column 1: expected `.version`";
            return ControlReply::Error(ControlError::new(ControlCode::BadModule, text));
        }
        let param = |offset, size| ParamInfo {
            offset,
            size,
            align: size,
        };
        let kernel = |name: &str, handle, params: Vec<ParamInfo>| KernelInfo {
            name: name.into(),
            handle,
            params_bytes: params.last().map_or(0, |last| last.offset + last.size),
            params,
            ..KernelInfo::default()
        };
        let scale = vec![param(0, 8), param(8, 4), param(12, 4)];
        let kernels = vec![
            kernel("scale", 1, scale),
            kernel("fault", 2, vec![]),
            kernel("lose_device", 3, vec![]),
        ];
        let globals = vec![GlobalInfo {
            name: "table".into(),
            address: MEMORY_BASE + MEMORY_BYTES as u64 - 64,
            bytes: 64,
            is_managed: false,
        }];
        ControlReply::Loaded(Module {
            handle: 1,
            kernels,
            globals,
            prints: false,
        })
    }
}

/// Returns the buffer that is mapped at an address, and the address's offset in it.
fn buffer_at(dma: &BTreeMap<u64, TenantBuffer>, iova: u64) -> Result<(&TenantBuffer, u64), String> {
    let below = dma.range(..=iova).next_back();
    let (start, buffer) = below.ok_or_else(|| format!("{iova:#x} is not mapped"))?;
    Ok((buffer, iova - start))
}

impl Handler for Device {
    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(regions::REGION_COUNT, 0)
    }

    fn region_info(&self, region: u32) -> Result<RegionDescription, Errno> {
        let bytes = self.rings.layout().total_bytes() as u64;
        regions::describe(region, bytes).ok_or(Errno::EINVAL)
    }

    fn region_fd(&self, region: u32) -> Option<BorrowedFd<'_>> {
        (region == REGION_RINGS).then(|| self.rings.memfd())
    }

    fn io_fds(&self, region: u32) -> Result<Vec<IoFd<'_>>, Errno> {
        let offset = regions::DOORBELL_OFFSET_BYTES;
        let bell = IoFd {
            offset,
            size: 4,
            fd: self.rings.doorbell(),
        };
        if region == REGION_FACTS {
            Ok(vec![bell])
        } else {
            Err(Errno::EINVAL)
        }
    }

    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        if region == REGION_CONTROL {
            return self.mailbox.read(offset, data);
        }
        Err(Errno::EINVAL)
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if region != REGION_CONTROL {
            return Err(Errno::EINVAL);
        }
        if let Some(request) = self.mailbox.write(offset, data)? {
            let reply = self.control(request);
            self.mailbox.answer(&reply);
        }
        Ok(())
    }

    fn dma_map(&mut self, request: &DmaMap, fd: Option<OwnedFd>) -> Result<(), Errno> {
        let fd = fd.ok_or(Errno::EINVAL)?;
        let buffer = TenantBuffer::new(fd, request.offset, request.size, request.protection());
        let buffer = buffer.map_err(|error| error.errno())?;
        self.dma.insert(request.address, buffer);
        Ok(())
    }

    fn dma_unmap(&mut self, request: &DmaUnmap) -> Result<(), Errno> {
        let found = self.dma.remove(&request.address);
        found.map(drop).ok_or(Errno::ENOENT)
    }

    fn reset(&mut self) -> Result<(), Errno> {
        self.dma.clear();
        Ok(())
    }
}
