//! The lock-free parts that several rooms share, and the one choice between the standard library's atomics and loom's.
//!
//! - [`publish`]: one writer hands its newest value to any number of readers.
//! - [`spsc`]: a bounded ring from one producer to one consumer.
//! - [`park`]: the flag by which one end falls asleep and the other wakes it.
//! - [`shim`]: atomics, cells, counted pointers and threads, from the standard library or from loom.
//!
//! Rules of this room:
//! - It knows no other room, and nothing of plans, tenants or devices.
//! - Every structure names its invariants, and a loom test (`tests/loom_*.rs`) explores each of them on the code that
//!   ships. Every atomic ordering names its partner.
//! - No operation of a reader, producer or consumer waits, locks or calls the allocator.

pub mod park;
pub mod publish;
pub mod shim;
pub mod spsc;
