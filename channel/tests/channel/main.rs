//! The channel's ends against each other and against peers that send anything: connections, memory, rings.
#![cfg(not(loom))]

mod connection;
mod memory;
mod rings;
