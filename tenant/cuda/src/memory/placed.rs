//! Pools by place and kind of memory: each place has a default one, which is made when it is first asked for, and one
//! that it has now. Those of the device's own memory are [`super::pool`]'s.

use super::pool::{self, CUmemoryPool, Pool};
use super::properties::{CUmemLocation, CUmemPoolProps, PoolKind};
use crate::api::driver_api;
use crate::border::Out;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Arc;

driver_api! {
    needs Init;
    13000 cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint)
        => get_default;
    13000 cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint) => get;
    13000 cuMemSetMemPool(location: *mut CUmemLocation, kind: c_uint, pool: CUmemoryPool) => set;
}

/// The pools of a place.
#[derive(Debug)]
struct Pools {
    default: Arc<Pool>,
    /// The one that the program named.
    current: Option<Arc<Pool>>,
}

/// Pools by the numbers of the kind of memory and of the place's type; all nodes of the host are one place.
static PLACES: Mutex<BTreeMap<(c_uint, c_uint), Pools>> = Mutex::new(BTreeMap::new());

impl Driver {
    /// Makes a pool that is destroyed no place's any more.
    pub(super) fn forget_pool(&self, pool: CUmemoryPool) {
        let left: Vec<_> = PLACES
            .lock()
            .values_mut()
            .filter_map(|pools| pools.current.take_if(|current| current.handle == pool))
            .collect();
        drop(left);
    }
}

/// Does something with the pools of a place, which is not the device's own memory.
fn with<T>(
    driver: &Driver,
    properties: &CUmemPoolProps,
    act: impl FnOnce(&mut Pools) -> CudaResult<T>,
) -> CudaResult<T> {
    let mut places = PLACES.lock();
    let pools = match places.entry(properties.place()) {
        std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::btree_map::Entry::Vacant(unknown) => unknown.insert(Pools {
            default: Pool::new(driver, properties, true)?,
            current: None,
        }),
    };
    act(pools)
}

fn get_default(place: Out<CUmemoryPool>, location: Out<CUmemLocation>, kind: c_uint) -> CudaResult {
    let (driver, location) = (Driver::get()?, location.get_at(0));
    let properties = CUmemPoolProps::of(kind, location);
    if properties.kind()? == PoolKind::Device {
        return pool::default_pool(place, location.id);
    }
    place.set(with(driver, &properties, |pools| Ok(pools.default.handle))?);
    Ok(())
}

fn get(place: Out<CUmemoryPool>, location: Out<CUmemLocation>, kind: c_uint) -> CudaResult {
    let (driver, location) = (Driver::get()?, location.get_at(0));
    let properties = CUmemPoolProps::of(kind, location);
    if properties.kind()? == PoolKind::Device {
        return pool::get_pool(place, location.id);
    }
    let handle = with(driver, &properties, |pools| {
        Ok(pools.current.as_ref().unwrap_or(&pools.default).handle)
    });
    place.set(handle?);
    Ok(())
}

fn set(location: Out<CUmemLocation>, kind: c_uint, pool: Arc<Pool>) -> CudaResult {
    let (driver, location) = (Driver::get()?, location.get_at(0));
    let properties = CUmemPoolProps::of(kind, location);
    if properties.kind()? != pool.kind || properties.place() != pool.place {
        return Err(Status::INVALID_VALUE);
    }
    if pool.kind == PoolKind::Device {
        return pool::set_pool(location.id, pool);
    }
    let handle = pool.handle;
    let before = with(driver, &properties, |pools| Ok(pools.current.replace(pool)))?;
    drop(before);
    // Who destroys it meanwhile makes it the place's no more, before or after.
    if driver.pools.get(handle).is_err() {
        driver.forget_pool(handle);
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}
