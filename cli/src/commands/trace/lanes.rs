//! Tracks of one name on a timeline: as many as there are slices at once, since slices of a track may not overlap.
//!
//! Rule: a slice goes to the first track whose last slice has ended.

use super::timeline::{MOST, track};
use crate::perfetto::packet::Packet;

/// Tracks of one name: the number of each, and when its last slice ends.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<(u64, u64)>);

impl Lanes {
    /// Returns the track for a slice from `start` to `end`, which is made if none is free. Where there are too many
    /// tracks it is the last one.
    pub(super) fn place(
        &mut self,
        (start, end): (u64, u64),
        (parent, name): (u64, &str),
        last_uuid: &mut u64,
        packets: &mut Vec<Packet>,
    ) -> u64 {
        if let Some(free) = self.free((start, end)) {
            return free;
        }
        if self.0.len() >= MOST
            && let Some((uuid, last)) = self.0.last_mut()
        {
            *last = (*last).max(end);
            return *uuid;
        }
        self.make(end, (parent, name), last_uuid, packets)
    }

    /// Returns the track for a slice from `start` to `end`, where one is free.
    pub(super) fn free(&mut self, (start, end): (u64, u64)) -> Option<u64> {
        let (uuid, last) = self.0.iter_mut().find(|(_, last)| *last <= start)?;
        *last = end;
        Some(*uuid)
    }

    /// Makes a track for a slice that ends at `end`.
    pub(super) fn make(
        &mut self,
        end: u64,
        (parent, name): (u64, &str),
        last_uuid: &mut u64,
        packets: &mut Vec<Packet>,
    ) -> u64 {
        *last_uuid += 1;
        packets.push(track(*last_uuid, parent, name));
        self.0.push((*last_uuid, end));
        *last_uuid
    }
}
