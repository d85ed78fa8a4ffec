//! The lock-free parts that several rooms share, a table of objects, and the one choice between the atomics and locks
//! that ship and loom's.
//!
//! - [`crew`]: threads that share the items of one job after another.
//! - [`publish`]: one writer hands its newest value to any number of readers.
//! - [`spsc`]: a bounded ring from one producer to one consumer.
//! - [`park`]: the flag by which one end falls asleep and the other wakes it.
//! - [`table`]: objects by number, any of which may be removed while it is in use.
//! - [`word_map`]: words by word, for readers that never wait and one writer.
//! - [`shim`]: atomics, cells, counted pointers, locks and threads, those that ship or loom's.
//!
//! Rules of this room:
//! - It knows no other room, and nothing of plans, tenants or devices.
//! - Every structure names its invariants, and a loom test (`tests/loom_*.rs`) explores each of them on the code that
//!   ships. Every atomic ordering names its partner.
//! - No operation of a reader, producer or consumer waits, locks or calls the allocator. Only the table has a lock, and
//!   nothing of the dispatcher's uses it.

pub mod crew;
pub mod park;
pub mod publish;
pub mod shim;
pub mod spsc;
pub mod table;
pub mod word_map;
