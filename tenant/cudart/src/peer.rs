//! Copies between devices. The driver knows where addresses are, so that the devices are checked and nothing more.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::copy::{self, BY_ADDRESS, Position, SpatialCopy};
use crate::current::ready;
use crate::driver::Driver;
use crate::memory::{Extent, Pitched};
use crate::status::CudaResult;
use std::ffi::c_int;

/// A copy of three dimensions between devices (`cudaMemcpy3DPeerParms`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PeerCopy {
    from_array: u64,
    from_at: Position,
    from: Pitched,
    from_device: c_int,
    to_array: u64,
    to_at: Position,
    to: Pitched,
    to_device: c_int,
    extent: Extent,
}

runtime_api! {
    cudaMemcpy3DPeer(copy: *const PeerCopy) | cudaMemcpy3DPeer_ptds => spatial_peer;
    cudaMemcpy3DPeerAsync(copy: *const PeerCopy, stream: u64) | cudaMemcpy3DPeerAsync_ptsz => spatial_peer_async;
    cudaMemcpyPeer(to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: usize) => peer;
    cudaMemcpyPeerAsync(
        to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: usize, stream: u64,
    ) => peer_async;
}

impl PeerCopy {
    /// Returns the copy without its devices, which are checked: there is one, or the driver says where addresses are.
    fn plain(self) -> CudaResult<SpatialCopy> {
        check_devices(ready()?, [self.from_device, self.to_device])?;
        Ok(SpatialCopy {
            from_array: self.from_array,
            from_at: self.from_at,
            from: self.from,
            to_array: self.to_array,
            to_at: self.to_at,
            to: self.to,
            extent: self.extent,
            kind: BY_ADDRESS,
        })
    }
}

fn spatial_peer(default: DefaultStream, peers: Place<PeerCopy>) -> CudaResult {
    copy::spatial(default, Place::to(&mut peers.get()?.plain()?))
}

fn spatial_peer_async(default: DefaultStream, peers: Place<PeerCopy>, stream: u64) -> CudaResult {
    copy::spatial_async(default, Place::to(&mut peers.get()?.plain()?), stream)
}

fn peer(to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: usize) -> CudaResult {
    check_devices(ready()?, [to_device, from_device])?.cuMemcpyDtoD_v2(to, from, bytes)
}

fn peer_async(
    to: u64,
    to_device: c_int,
    from: u64,
    from_device: c_int,
    bytes: usize,
    stream: u64,
) -> CudaResult {
    let driver = check_devices(ready()?, [to_device, from_device])?;
    driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream)
}

fn check_devices(driver: &Driver, devices: [c_int; 2]) -> CudaResult<&Driver> {
    for ordinal in devices {
        let mut device = 0;
        driver.cuDeviceGet(Place::to(&mut device), ordinal)?;
    }
    Ok(driver)
}
