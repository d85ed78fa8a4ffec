//! Operations on memory: loads, stores, atomic operations, asynchronous copies.
//!
//! An access ([`access`]) is checked for all lanes that aim at one state space before any of them is done. With timing,
//! global writes of an SM wait in a log ([`log`]) for the end of the epoch; [`own_writes`] shows them to the SM's own
//! loads before that.
//! Rules: no address of a tenant's is followed unchecked; one SM's writes are seen by others in the order of the log.

pub(super) mod access;
pub(super) mod asynchronous;
pub(super) mod atomic;
pub(super) mod atomic_element;
pub(super) mod atomic_wide;
pub(super) mod exchange;
pub(super) mod load_store;
pub(super) mod load_store_wide;
pub(super) mod log;
pub(super) mod own_writes;
pub(super) mod stored;
pub(super) mod swap;
