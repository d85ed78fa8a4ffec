//! The live blocks of a launch, and which of them goes on.
//!
//! Blocks begin in ascending order, and the next one begins only when none of those that have begun is to go on. Where
//! several are live they have their turns one after another, up and down the order in which they began: whether blocks
//! wait for earlier ones or for later ones, one sweep lets all of them on.
//!
//! Rule: no two live blocks share a seat, and a seat that is free holds nothing that is still needed.

use super::seat::Seat;

/// The seats of a launch.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) seats: Vec<Seat>,
    /// Seats of the live blocks, in the order in which they began.
    order: Vec<u32>,
    free: Vec<u32>,
    /// Place in `order` of the block that goes on.
    at: usize,
    goes_up: bool,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            seats: Vec::new(),
            order: Vec::new(),
            free: Vec::new(),
            at: 0,
            goes_up: true,
        }
    }

    /// Returns how many blocks are live.
    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// Returns the block that goes on, if any is live.
    #[inline]
    pub(super) fn current(&mut self) -> Option<&mut Seat> {
        let seat = *self.order.get(self.at)?;
        self.seats.get_mut(seat as usize)
    }

    /// Makes room for one more block, which goes on.
    pub(super) fn add(&mut self) -> &mut Seat {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.seats.push(Seat::new());
            u32::try_from(self.seats.len() - 1).unwrap_or(u32::MAX)
        });
        self.at = self.order.len();
        self.order.push(seat);
        &mut self.seats[seat as usize]
    }

    /// Takes the block that goes on out of the list, because it has ended.
    pub(super) fn remove(&mut self) {
        let seat = self.order.remove(self.at);
        self.free.push(seat);
        if !self.goes_up && self.at > 0 {
            self.at -= 1;
        }
        if self.at == self.order.len() {
            self.at = self.at.saturating_sub(1);
            self.goes_up = false;
        }
    }

    /// Lets the next block go on.
    pub(super) fn turn_over(&mut self) {
        let last = self.order.len().saturating_sub(1);
        self.goes_up = match self.at {
            0 => true,
            at if at == last => false,
            _ => self.goes_up,
        };
        match self.goes_up {
            true => self.at = (self.at + 1).min(last),
            false => self.at -= 1,
        }
    }

    /// Forgets all blocks and keeps the storage of one.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.free.clear();
        self.seats.truncate(1);
        self.free.extend((!self.seats.is_empty()).then_some(0));
        (self.at, self.goes_up) = (0, true);
    }
}

#[cfg(test)]
mod tests {
    use super::Live;

    /// Returns the places of the blocks that go on one after another.
    fn turns(live: &mut Live, count: usize) -> Vec<usize> {
        let turn = |_| {
            let at = live.at;
            live.turn_over();
            at
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn turns_go_up_and_down_the_order() {
        let mut live = Live::new();
        for _ in 0..4 {
            live.add();
        }
        assert_eq!(turns(&mut live, 8), [3, 2, 1, 0, 1, 2, 3, 2]);
        let mut one = Live::new();
        one.add();
        assert_eq!(turns(&mut one, 3), [0, 0, 0]);
    }

    #[test]
    fn a_sweep_goes_on_where_a_block_has_ended() {
        let mut live = Live::new();
        for _ in 0..4 {
            live.add();
        }
        // Down from the last one: each ends.
        for left in (0..4).rev() {
            assert_eq!(live.at, left);
            live.remove();
        }
        assert_eq!(live.count(), 0);
        assert!(live.current().is_none());
        // Up from the first one.
        for _ in 0..4 {
            live.add();
        }
        (live.at, live.goes_up) = (1, true);
        let behind = live.order[2];
        live.remove();
        assert_eq!((live.at, live.order[live.at]), (1, behind));
    }

    #[test]
    fn a_seat_is_used_again() {
        let mut live = Live::new();
        for _ in 0..10 {
            live.add();
            live.remove();
        }
        assert_eq!(live.seats.len(), 1);
        for _ in 0..3 {
            live.add();
        }
        live.clear();
        assert_eq!((live.seats.len(), live.count()), (1, 0));
        live.add();
        assert_eq!(live.seats.len(), 1);
    }
}
