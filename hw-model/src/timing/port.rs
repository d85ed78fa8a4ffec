//! An SM's port to the interconnect: requests leave one after another, and replies come in one after another.
//!
//! Rule: replies are taken by their time of arrival, those of one cycle by the number of their request, whatever the
//! order in which the groups of partitions delivered them.

use super::memory_system::Reply;
use crate::config::{Interconnect, SECTOR_BYTES};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The port.
#[derive(Debug)]
pub(super) struct Port {
    /// First cycle in which the way to the interconnect is free.
    free_at: u64,
    /// Number of the next request.
    next_request: u32,
    /// First cycle in which the way from the interconnect is free.
    reply_free_at: u64,
    /// Replies on their way: arrival, number of the request, miss, sectors.
    inbox: BinaryHeap<Reverse<(u64, u32, u32, u8)>>,
}

impl Port {
    pub(super) fn new() -> Self {
        Self {
            free_at: 0,
            next_request: 0,
            reply_free_at: 0,
            inbox: BinaryHeap::with_capacity(512),
        }
    }

    /// Returns when the way to the interconnect is free.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Sends a request with `payload` bytes of data not before `at`; returns when it leaves and its number.
    pub(super) fn send(&mut self, network: &Interconnect, payload: u64, at: u64) -> (u64, u32) {
        let bytes = u64::from(network.header_bytes) + payload;
        let cycles = bytes.div_ceil(u64::from(network.request_bytes_per_cycle));
        let departs = at.max(self.free_at);
        self.free_at = departs + cycles.max(1);
        let number = self.next_request;
        self.next_request = number.wrapping_add(1);
        (departs, number)
    }

    /// Takes note of a reply that is on its way.
    pub(super) fn expect(&mut self, reply: &Reply) {
        let key = (reply.at, reply.number, reply.miss, reply.sectors);
        self.inbox.push(Reverse(key));
    }

    /// Returns when the next reply arrives, [`u64::MAX`] for none.
    pub(super) fn next_at(&self) -> u64 {
        self.inbox.peek().map_or(u64::MAX, |Reverse((at, ..))| *at)
    }

    /// Takes the next reply that arrives before `end`; returns its miss and when it has come through the port.
    pub(super) fn receive(&mut self, network: &Interconnect, end: u64) -> Option<(u32, u64)> {
        if self.next_at() >= end {
            return None;
        }
        let Reverse((at, _, miss, sectors)) = self.inbox.pop()?;
        let turn = self.reply_free_at.max(at);
        let rate = u64::from(network.reply_bytes_per_cycle);
        let bytes =
            u64::from(network.header_bytes) + u64::from(sectors.count_ones()) * SECTOR_BYTES;
        self.reply_free_at = turn + bytes.div_ceil(rate);
        Some((miss, turn))
    }
}
