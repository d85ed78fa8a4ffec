//! Parameters of admitted launches: a pool per client, so that an operation is small and each parameter is copied once.
//!
//! Most launches have few parameters; large blocks of them are rare. A pool has many small slots and a few large ones.
//! A launch that finds none free is not admitted yet: it stays in its client's ring.
//!
//! Rules: a slot begins with room for the control block of a rewritten kernel, which is written anew for each slice;
//! the client's bytes follow. A pool is allocated when its client joins, and by the control thread.

use crate::device::PARAM_BYTES;
use crate::dispatch::ids::OPERATIONS_PER_CLIENT;
use gridmux_ptx::control::CONTROL_BYTES;

/// Bytes of the control block, in front of the client's in every slot.
const CONTROL: usize = CONTROL_BYTES as usize;
/// Bytes of a small slot.
const SMALL_BYTES: usize = 256;
/// Small slots: one for each operation that a client may have.
const SMALL_SLOTS: usize = OPERATIONS_PER_CLIENT;
/// Large slots.
const LARGE_SLOTS: usize = if cfg!(loom) { 1 } else { 8 };

/// One slot of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamSlot {
    /// The client's bytes.
    len: u16,
    index: u16,
}

/// A client's parameters.
#[derive(Debug)]
pub struct ParamPool {
    bytes: Box<[u8]>,
    free_small: Vec<u16>,
    free_large: Vec<u16>,
}

impl Default for ParamPool {
    fn default() -> Self {
        let slots = |from: usize, count: usize| -> Vec<u16> {
            let number = |n| u16::try_from(n).unwrap_or(u16::MAX);
            (from..from + count).rev().map(number).collect()
        };
        Self {
            bytes: vec![0; SMALL_SLOTS * SMALL_BYTES + LARGE_SLOTS * PARAM_BYTES]
                .into_boxed_slice(),
            free_small: slots(0, SMALL_SLOTS),
            free_large: slots(SMALL_SLOTS, LARGE_SLOTS),
        }
    }
}

impl ParamPool {
    /// Returns whether a launch of any size that is permitted finds a slot.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free_small.is_empty() && !self.free_large.is_empty()
    }

    /// Takes a slot for `bytes` of a client's parameters; `None` where they are too long or no slot is free.
    pub fn take(&mut self, bytes: usize) -> Option<ParamSlot> {
        let needs = CONTROL + bytes;
        let index = if needs <= SMALL_BYTES {
            self.free_small.pop().or_else(|| self.free_large.pop())
        } else if needs <= PARAM_BYTES {
            self.free_large.pop()
        } else {
            None
        };
        Some(ParamSlot {
            len: u16::try_from(bytes).ok()?,
            index: index?,
        })
    }

    /// Returns the client's bytes of a slot, to be filled.
    pub fn bytes_mut(&mut self, slot: ParamSlot) -> &mut [u8] {
        let own = start_of(slot.index) + CONTROL;
        &mut self.bytes[own..own + usize::from(slot.len)]
    }

    /// Writes a control block in front of the client's bytes and returns all of them; without one returns the client's
    /// bytes.
    pub fn with_control(&mut self, slot: ParamSlot, control: Option<&[u8; CONTROL]>) -> &[u8] {
        let start = start_of(slot.index);
        let own = start + CONTROL;
        let end = own + usize::from(slot.len);
        match control {
            Some(control) => {
                self.bytes[start..own].copy_from_slice(control);
                &self.bytes[start..end]
            }
            None => &self.bytes[own..end],
        }
    }

    /// Gives a slot back.
    pub fn give_back(&mut self, slot: ParamSlot) {
        // The stacks were made with room for every slot.
        match usize::from(slot.index) < SMALL_SLOTS {
            true => self.free_small.push(slot.index),
            false => self.free_large.push(slot.index),
        }
    }
}

fn start_of(index: u16) -> usize {
    let index = usize::from(index);
    match index.checked_sub(SMALL_SLOTS) {
        None => index * SMALL_BYTES,
        Some(large) => SMALL_SLOTS * SMALL_BYTES + large * PARAM_BYTES,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LARGE_SLOTS, PARAM_BYTES, ParamPool, SMALL_SLOTS};

    #[test]
    fn slots_do_not_overlap_and_come_back() {
        let mut pool = ParamPool::default();
        let slots: Vec<_> = (0..SMALL_SLOTS).map(|_| pool.take(100).unwrap()).collect();
        for (slot, byte) in slots.iter().zip(0_u8..) {
            pool.bytes_mut(*slot).fill(byte);
        }
        for (slot, byte) in slots.iter().zip(0_u8..) {
            assert!(pool.bytes_mut(*slot).iter().all(|b| *b == byte));
        }
        let large: Vec<_> = (0..LARGE_SLOTS).map(|_| pool.take(4096).unwrap()).collect();
        assert!(pool.take(8).is_none() && pool.take(4096).is_none());
        pool.give_back(large[0]);
        assert!(pool.take(8).is_some(), "a large slot serves a small launch");
        assert!(pool.take(5000).is_none());
    }

    #[test]
    fn the_control_block_comes_before_the_clients_bytes() {
        let mut pool = ParamPool::default();
        for bytes in [0, 12, 192, 193, PARAM_BYTES - 64] {
            let slot = pool.take(bytes).unwrap();
            pool.bytes_mut(slot).fill(7);
            let own = vec![7; bytes];
            assert_eq!(pool.with_control(slot, None), own);
            let all = pool.with_control(slot, Some(&[9; 64]));
            assert_eq!((&all[..64], &all[64..]), (&[9; 64][..], &own[..]));
            assert_eq!(pool.with_control(slot, None), own);
        }
        assert_eq!(pool.take(PARAM_BYTES - 63), None);
    }
}
