//! Why a device refuses what the control thread asks for.

/// Why the device refused a control operation.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No such device here.
    #[error("no device: {0}")]
    NoDevice(String),
    /// Out of memory.
    #[error("out of device memory: asked for {asked} bytes, {detail}")]
    OutOfMemory {
        /// Bytes that were asked for.
        asked: u64,
        /// The limit, in words.
        detail: String,
    },
    /// An address that is not an allocation of this tenant.
    #[error("address {address:#x} is not the start of an allocation of this tenant")]
    BadAddress {
        /// The address.
        address: u64,
    },
    /// The module cannot be loaded.
    #[error("{0}")]
    Load(String),
    /// The backend failed.
    #[error("device error: {0}")]
    Backend(String),
    /// The backend cannot do it.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A texture, surface or mapping that there cannot be.
    #[error("{0}")]
    Object(String),
    /// A tenant's memory that is not fit for the device.
    #[error("memory that cannot be mapped for the device: {0}")]
    Unfit(String),
}
