//! Pools: memory that is allocated and given back in the order of a stream, without the host waiting.
//!
//! A block that is given back stays with its pool, with the mark in the stream behind which it is free. An allocation
//! takes such a block if the same stream gave it back, or if the mark has been passed, and else new memory. At a
//! synchronisation, what the pool holds over its release threshold goes back to the device.

use super::map::Memory;
use super::properties::{CUmemAccessDesc, CUmemLocation, CUmemPoolProps, PoolKind, READ_WRITE};
use super::{CUdeviceptr, graph, lease};
use crate::api::driver_api;
use crate::attribute::pool::{
    ALLOCATION_TYPE, HW_DECOMPRESS_ENABLED, LOCALITY_DOMAIN_ID, LOCATION_TYPE, MAX_POOL_SIZE,
    RELEASE_THRESHOLD, RESERVED_MEM_CURRENT, RESERVED_MEM_HIGH, REUSE_ALLOW_INTERNAL_DEPENDENCIES,
    REUSE_FOLLOW_EVENT_DEPENDENCIES, USED_MEM_CURRENT, USED_MEM_HIGH,
};
use crate::border::{self, AnyOut, In, Out};
use crate::device::{self, CUdevice};
use crate::driver::Driver;
use crate::graph::work::memory::Allocate;
use crate::graph::{capture, work};
use crate::registry::{Handle, Object, Registry};
use crate::report;
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, Stream, usable_stream};
use gridmux_tenant::{Buffer, Mark};
use parking_lot::Mutex;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A pool as C holds it.
pub type CUmemoryPool = Handle<Pool>;

/// Blocks are multiples of this many bytes, so that they are found again for sizes that differ little.
const UNIT_BYTES: u64 = 512;

/// A pool.
#[derive(Debug)]
pub struct Pool {
    pub(super) handle: CUmemoryPool,
    /// The kind of memory that it is of.
    pub(super) kind: PoolKind,
    /// The numbers of its kind of memory and of its place's type.
    pub(super) place: (c_uint, c_uint),
    /// The library made it; the program cannot destroy it.
    is_default: bool,
    /// The blocks that were given back; nothing once the pool was destroyed.
    free: Mutex<Option<Vec<Free>>>,
    /// Bytes that it may keep at a synchronisation.
    release_threshold: AtomicU64,
    /// The three attributes that allow or forbid reuse; remembered.
    reuse: [AtomicU32; 3],
    /// The most bytes that it may reserve; 0 for all there are.
    most_bytes: u64,
    reserved: Meter,
    used: Meter,
}

/// Bytes now, and the most there were.
#[derive(Debug, Default)]
struct Meter {
    now: AtomicU64,
    most: AtomicU64,
}

/// Memory of a pool.
#[derive(Debug)]
pub struct Block {
    buffer: Buffer,
    pool: Arc<Pool>,
}

/// A block that was given back.
#[derive(Debug)]
struct Free {
    block: Arc<Block>,
    stream: u64,
    behind: Mark,
}

impl Object for Pool {
    const KIND: u8 = 8;
    const UNKNOWN: Status = Status::INVALID_VALUE;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.pools
    }
}

driver_api! {
    needs Init;
    11020 cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) => default_pool;
    11020 cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) => get_pool;
    11020 cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) => set_pool;
    11020 cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) => create;
    11020 cuMemPoolDestroy(pool: CUmemoryPool) => destroy;
    11020 cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) => trim_to;
    11020 cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) => get_attribute;
    11020 cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) => set_attribute;
    11020 cuMemPoolGetAccess(flags: *mut c_uint, pool: CUmemoryPool, location: *mut CUmemLocation) => get_access;
    11020 cuMemPoolSetAccess(pool: CUmemoryPool, access: *const CUmemAccessDesc, count: usize) => set_access;
    11020 cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream)
        | cuMemAllocAsync_ptsz => allocate;
    11020 cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream,
    ) | cuMemAllocFromPoolAsync_ptsz => allocate_from;
    11020 cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) | cuMemFreeAsync_ptsz => free;
}

impl Meter {
    fn add(&self, bytes: u64) {
        // relaxed: figures for the program to read, which order nothing.
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    /// Adds bytes unless there would be more than `most`.
    fn add_within(&self, bytes: u64, most: u64) -> bool {
        let more = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= most);
        // relaxed: as in `add`; the exchange alone keeps the sum within its bound.
        let added = self
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if let Ok(before) = added {
            // relaxed: as the sum.
            self.most.fetch_max(before + bytes, Ordering::Relaxed);
        }
        added.is_ok()
    }

    fn take(&self, bytes: u64) {
        // relaxed: as in `add`.
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Block {
    /// Returns the handle of its pool.
    #[must_use]
    pub fn pool(&self) -> CUmemoryPool {
        self.pool.handle
    }

    /// Takes note that the program has given it back.
    pub(super) fn given_back(&self) {
        self.pool.used.take(self.buffer.bytes());
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.reserved.take(self.buffer.bytes());
    }
}

impl Pool {
    pub(super) fn new(
        driver: &Driver,
        properties: &CUmemPoolProps,
        is_default: bool,
    ) -> CudaResult<Arc<Self>> {
        let kind = properties.kind()?;
        driver.pools.add(|handle| Self {
            handle,
            kind,
            place: properties.place(),
            is_default,
            free: Mutex::new(Some(Vec::new())),
            release_threshold: AtomicU64::new(0),
            reuse: [1, 1, 1].map(AtomicU32::new),
            most_bytes: properties.max_size as u64,
            reserved: Meter::default(),
            used: Meter::default(),
        })
    }

    /// Counts memory as the pool's and the program's.
    ///
    /// # Errors
    /// [`Status::OUT_OF_MEMORY`]: it may not have so much.
    pub(super) fn hold(&self, driver: &Driver, bytes: u64) -> CudaResult {
        self.reserve(driver, bytes)?;
        self.used.add(bytes);
        Ok(())
    }

    /// Takes away what [`Pool::hold`] counted.
    pub(super) fn let_go(&self, bytes: u64) {
        self.used.take(bytes);
        self.reserved.take(bytes);
    }

    /// Returns the device's own pool.
    fn default(driver: &Driver) -> CudaResult<Arc<Self>> {
        if let Some(pool) = driver.default_pool.get() {
            return Ok(Arc::clone(pool));
        }
        let made = Self::new(driver, &CUmemPoolProps::of_device(), true)?;
        let pool = Arc::clone(driver.default_pool.get_or_init(|| Arc::clone(&made)));
        if !Arc::ptr_eq(&pool, &made) {
            // Another thread was first.
            drop(driver.pools.remove(made.handle));
        }
        Ok(pool)
    }

    /// Returns the pool that allocations come from which name none: the one that the program set, or else the device's
    /// own.
    fn current(driver: &Driver) -> CudaResult<Arc<Self>> {
        let set = driver.current_pool.lock().clone();
        set.map_or_else(|| Self::default(driver), Ok)
    }

    /// Makes a pool that is destroyed the device's no more.
    fn leave(driver: &Driver, pool: CUmemoryPool) {
        let left = driver.current_pool.lock().take_if(|set| set.handle == pool);
        drop(left);
    }

    /// Takes a block of `bytes` bytes that may be used on `stream`.
    fn take(
        self: &Arc<Self>,
        driver: &Driver,
        bytes: u64,
        stream: &Stream,
    ) -> CudaResult<Arc<Block>> {
        let bytes = bytes.checked_next_multiple_of(UNIT_BYTES);
        let bytes = bytes.ok_or(Status::OUT_OF_MEMORY)?;
        if let Some(block) = self.take_free(driver, bytes, stream)? {
            return Ok(block);
        }
        self.reserve(driver, bytes)?;
        let buffer = driver.allocate(bytes);
        let buffer = buffer.inspect_err(|_| self.reserved.take(bytes))?;
        Ok(Arc::new(Block {
            buffer,
            pool: Arc::clone(self),
        }))
    }

    /// Counts new memory as the pool's, if it may have so much; what it keeps is given back before it has too much.
    fn reserve(&self, driver: &Driver, bytes: u64) -> CudaResult {
        let most = match self.most_bytes {
            0 => u64::MAX,
            most => most,
        };
        if self.reserved.add_within(bytes, most) {
            return Ok(());
        }
        self.await_free(driver)?;
        self.trim(driver, 0);
        match self.reserved.add_within(bytes, most) {
            true => Ok(()),
            false => Err(Status::OUT_OF_MEMORY),
        }
    }

    fn take_free(
        &self,
        driver: &Driver,
        bytes: u64,
        stream: &Stream,
    ) -> CudaResult<Option<Arc<Block>>> {
        let mut free = self.free.lock();
        let free = free.as_mut().ok_or(Pool::UNKNOWN)?;
        for index in 0..free.len() {
            let candidate = &free[index];
            if candidate.block.buffer.bytes() == bytes
                && (candidate.stream == stream.id() || driver.gpu.has_passed(candidate.behind)?)
            {
                return Ok(Some(free.swap_remove(index).block));
            }
        }
        Ok(None)
    }

    /// Returns whether anything was given back to it that it keeps.
    fn holds_free(&self) -> bool {
        self.free
            .lock()
            .as_ref()
            .is_some_and(|free| !free.is_empty())
    }

    /// Waits until everything that was given back to it is free.
    fn await_free(&self, driver: &Driver) -> CudaResult {
        let marks: Vec<Mark> = match self.free.lock().as_ref() {
            Some(free) => free.iter().map(|free| free.behind).collect(),
            None => Vec::new(),
        };
        for mark in marks {
            driver.gpu.wait_mark(mark)?;
        }
        Ok(())
    }

    /// Gives memory back to the device until the pool holds at most `keep` bytes, as far as it is free by now.
    fn trim(&self, driver: &Driver, keep: u64) {
        let mut released = Vec::new();
        let mut guard = self.free.lock();
        let Some(free) = guard.as_mut() else {
            return;
        };
        // relaxed: the list of free blocks has its lock; the figure only says how much of it may stay.
        let mut held = self.reserved.now.load(Ordering::Relaxed);
        free.retain(|candidate| {
            let goes = held > keep && driver.gpu.has_passed(candidate.behind).unwrap_or(true);
            if goes {
                held -= candidate.block.buffer.bytes();
                released.push(Arc::clone(&candidate.block));
            }
            !goes
        });
        drop(guard);
        for block in released {
            block.buffer.nothing_uses_it();
        }
    }

    /// Keeps a block that was given back. That of a destroyed pool goes when everything before has ended.
    fn give(&self, block: Free) {
        let mut free = self.free.lock();
        let refused = match free.as_mut() {
            Some(free) => {
                free.push(block);
                None
            }
            None => Some(block),
        };
        drop(free);
        // Giving memory back may wait, which no lock is held for.
        drop(refused);
    }

    /// Gives everything back, now or when it is free: nothing is taken from the pool any more.
    fn close(&self, driver: &Driver) {
        self.trim(driver, 0);
        let left = self.free.lock().take();
        drop(left);
    }
}

impl Driver {
    /// Allocates device memory. Where there is too little, pools give up what they hold, as documented.
    ///
    /// # Errors
    /// [`Status::OUT_OF_MEMORY`]; the device was lost.
    pub(super) fn allocate(&self, bytes: u64) -> CudaResult<Buffer> {
        let error = match self.gpu.alloc(bytes) {
            Ok(buffer) => return Ok(buffer),
            Err(error) => error,
        };
        let status = Status::from(&error);
        let pools = self.pools.all();
        let is_held = pools.iter().any(|pool| pool.holds_free()) || graph::keeps_unused();
        if status != Status::OUT_OF_MEMORY || !is_held {
            report::out_of_memory(&error);
            return Err(status);
        }
        for pool in pools {
            pool.await_free(self)?;
            pool.trim(self, 0);
        }
        graph::trim(self);
        let allocated = self.gpu.alloc(bytes);
        Ok(allocated.inspect_err(report::out_of_memory)?)
    }

    /// Gives back what pools hold over their thresholds, as a synchronisation does.
    pub fn trim_pools(&self) {
        for pool in self.pools.all() {
            // relaxed: a value that stands alone.
            pool.trim(self, pool.release_threshold.load(Ordering::Relaxed));
        }
    }
}

pub(super) fn default_pool(place: Out<CUmemoryPool>, device: CUdevice) -> CudaResult {
    let driver = device::check(device)?;
    place.set(Pool::default(driver)?.handle);
    Ok(())
}

pub(super) fn get_pool(place: Out<CUmemoryPool>, device: CUdevice) -> CudaResult {
    let driver = device::check(device)?;
    place.set(Pool::current(driver)?.handle);
    Ok(())
}

/// Makes a pool the one that allocations come from which name none.
pub(super) fn set_pool(device: CUdevice, pool: Arc<Pool>) -> CudaResult {
    let driver = device::check(device)?;
    // Who destroys the pool meanwhile makes it the device's no more, before or after.
    let before = driver.current_pool.lock().replace(Arc::clone(&pool));
    drop(before);
    if driver.pools.get(pool.handle).is_err() {
        Pool::leave(driver, pool.handle);
        return Err(Pool::UNKNOWN);
    }
    Ok(())
}

fn create(place: Out<CUmemoryPool>, In(properties): In<CUmemPoolProps>) -> CudaResult {
    let driver = Driver::get()?;
    place.set(Pool::new(driver, &properties, false)?.handle);
    Ok(())
}

fn destroy(pool: CUmemoryPool) -> CudaResult {
    let driver = Driver::get()?;
    if driver.pools.get(pool)?.is_default {
        return Err(Status::INVALID_VALUE);
    }
    let removed = driver.pools.remove(pool)?;
    Pool::leave(driver, pool);
    driver.forget_pool(pool);
    removed.close(driver);
    Ok(())
}

fn get_access(flags: Out<c_uint>, pool: Arc<Pool>, location: Out<CUmemLocation>) -> CudaResult {
    location.get_at(0).check_access(pool.kind)?;
    flags.set(READ_WRITE);
    Ok(())
}

/// Checks who is to have access. Who can reach a pool's memory may always read and write.
fn set_access(pool: Arc<Pool>, access: *const CUmemAccessDesc, count: usize) -> CudaResult {
    // SAFETY: the program passes that many descriptions, which it lets alone until the function returns, as the C
    // declaration asks.
    let access = unsafe { border::slice(access, count)? };
    access.iter().try_for_each(|access| access.check(pool.kind))
}

fn trim_to(pool: Arc<Pool>, keep: usize) -> CudaResult {
    pool.trim(Driver::get()?, keep as u64);
    Ok(())
}

fn get_attribute(pool: Arc<Pool>, attribute: c_uint, value: AnyOut) -> CudaResult {
    /// -1, as an unsigned number.
    const NONE: c_uint = c_uint::MAX;
    let wide = |figure: &AtomicU64| {
        // relaxed: a value that stands alone.
        value.of::<u64>()?.set(figure.load(Ordering::Relaxed));
        Ok(())
    };
    match attribute {
        REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            // relaxed: a value that stands alone.
            let allowed = pool.reuse[attribute as usize - 1].load(Ordering::Relaxed);
            value.of::<c_uint>()?.set(allowed);
            Ok(())
        }
        RELEASE_THRESHOLD => wide(&pool.release_threshold),
        RESERVED_MEM_CURRENT => wide(&pool.reserved.now),
        RESERVED_MEM_HIGH => wide(&pool.reserved.most),
        USED_MEM_CURRENT => wide(&pool.used.now),
        USED_MEM_HIGH => wide(&pool.used.most),
        MAX_POOL_SIZE => {
            value.of::<u64>()?.set(pool.most_bytes);
            Ok(())
        }
        // What every pool is here: of all of device 0, if of a device, shared with nobody, not unpacked by the device.
        ALLOCATION_TYPE..=LOCATION_TYPE | HW_DECOMPRESS_ENABLED..=LOCALITY_DOMAIN_ID => {
            let told = match attribute {
                ALLOCATION_TYPE => pool.place.0,
                LOCATION_TYPE => pool.place.1,
                LOCALITY_DOMAIN_ID => NONE,
                _ => 0,
            };
            value.of::<c_uint>()?.set(told);
            Ok(())
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

fn set_attribute(pool: Arc<Pool>, attribute: c_uint, value: AnyOut) -> CudaResult {
    match attribute {
        REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            let allowed = value.of::<c_uint>()?.get_at(0);
            // relaxed: a value that stands alone.
            pool.reuse[attribute as usize - 1].store(allowed, Ordering::Relaxed);
        }
        RELEASE_THRESHOLD => {
            let bytes = value.of::<u64>()?.get_at(0);
            // relaxed: a value that stands alone.
            pool.release_threshold.store(bytes, Ordering::Relaxed);
        }
        // A high-water mark can be reset to what is there now.
        RESERVED_MEM_HIGH | USED_MEM_HIGH if value.of::<u64>()?.get_at(0) == 0 => {
            let meter = match attribute {
                RESERVED_MEM_HIGH => &pool.reserved,
                _ => &pool.used,
            };
            // relaxed: as in `Meter::add`.
            let now = meter.now.load(Ordering::Relaxed);
            // relaxed: as in `Meter::add`.
            meter.most.store(now, Ordering::Relaxed);
        }
        _ => return Err(Status::INVALID_VALUE),
    }
    Ok(())
}

fn allocate(
    default: DefaultStream,
    place: Out<CUdeviceptr>,
    bytes: usize,
    stream: CUstream,
) -> CudaResult {
    let pool = Pool::current(Driver::get()?)?;
    allocate_from(default, place, bytes, pool, stream)
}

fn allocate_from(
    default: DefaultStream,
    place: Out<CUdeviceptr>,
    bytes: usize,
    pool: Arc<Pool>,
    stream: CUstream,
) -> CudaResult {
    let (driver, context, stream) = usable_stream(default, stream)?;
    if bytes == 0 {
        // Unlike `cuMemAlloc`, it gives null, which may be given back.
        place.set(0);
        return Ok(());
    }
    if pool.kind != PoolKind::Device {
        place.set(lease::allocate(
            driver,
            &context,
            &stream,
            &pool,
            bytes as u64,
        )?);
        return Ok(());
    }
    if let Some(captured) = capture::of(&stream)? {
        let node = Allocate::captured(driver, bytes)?;
        let address = node.address();
        captured.add(node)?;
        place.set(address);
        return Ok(());
    }
    let block = pool.take(driver, bytes as u64, &stream)?;
    let (start, len) = (block.buffer.address(), block.buffer.bytes());
    // Counted before the map has it: from then on the end of its context may give it back.
    pool.used.add(len);
    let added = driver
        .memory
        .add_to(&context, start, len, Memory::Pooled(block));
    added.inspect_err(|_| pool.used.take(len))?;
    place.set(start);
    Ok(())
}

fn free(default: DefaultStream, address: CUdeviceptr, stream: CUstream) -> CudaResult {
    let (driver, _, stream) = usable_stream(default, stream)?;
    if address == 0 {
        return Ok(());
    }
    if let Some(captured) = capture::of(&stream)? {
        let node = work::memory::Free::new(captured.capture.graph(), address)?;
        return captured.add(node).map(drop);
    }
    if let Ok(memory) = graph::find(driver, address) {
        return memory.release();
    }
    let is_allocation = |memory: &Memory| match memory {
        Memory::Device(_) | Memory::Pooled(_) => true,
        Memory::Managed(managed) => managed.lease.is_some(),
        Memory::Pinned(pinned) => pinned.lease.is_some(),
        _ => false,
    };
    let range = driver.memory.remove(address, is_allocation);
    let range = range.ok_or(Status::INVALID_VALUE)?;
    let Memory::Pooled(block) = &range.memory else {
        // Other memory goes back when everything before has ended.
        drop(range);
        return Ok(());
    };
    let mut behind = None;
    stream.submit(driver, |lane| {
        behind = Some(lane.barrier()?);
        Ok(behind)
    })?;
    block.given_back();
    if let Some(behind) = behind {
        block.pool.give(Free {
            block: Arc::clone(block),
            stream: stream.id(),
            behind,
        });
    }
    Ok(())
}
