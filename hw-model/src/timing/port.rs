//! An SM's port to the interconnect: what it sends leaves one after the other, and so do the replies arrive.
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
    /// When the way to the interconnect is free.
    pub(super) free_at: u64,
    /// When the way from the interconnect is free.
    reply_free_at: u64,
    /// Replies on their way: arrival, number of the request, miss, sectors.
    inbox: BinaryHeap<Reverse<(u64, u32, u32, u8)>>,
}

impl Port {
    pub(super) fn new() -> Self {
        Self {
            free_at: 0,
            reply_free_at: 0,
            inbox: BinaryHeap::with_capacity(512),
        }
    }

    /// A reply is on its way.
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
