//! Caps by row and SM, filled block by block, and the groups of SMs that come out alike.

use crate::book::Book;
use crate::ids::{RowId, SmId, TenantId};
use crate::plan::{DispatchOrder, Group, Preemption, Surplus};
use crate::shape::{BlockShape, DeviceShape, Room};
use crate::sm_set::SmSet;

/// A launch that is larger than its part by less than this factor gets room for all of its blocks: the few that are too
/// many would take as long as all others.
const WHOLE: f64 = 1.25;

/// How many blocks of each row each SM may hold.
#[derive(Debug, Default)]
pub struct CapTable {
    rows: usize,
    rooms: Vec<Room>,
    /// SM by SM, a number for each row.
    caps: Vec<u16>,
    /// By row: the sum of its caps.
    placed: Vec<u64>,
    /// By row: SMs before this one have no room for its blocks any more.
    full: Vec<usize>,
    /// Of each group of SMs alike: its first SM, and all of them.
    groups: Vec<(usize, SmSet)>,
    parties: Vec<Party>,
}

/// A tenant among whose rows its part of the device is divided.
#[derive(Debug)]
struct Party {
    tenant: TenantId,
    rows: u64,
    /// How much of its part was given, 1 for all of it.
    given: f64,
}

impl CapTable {
    /// Clears the table, for empty SMs and this number of rows.
    pub fn begin(&mut self, device: &DeviceShape, rows: usize) {
        let sms = usize::from(device.sms);
        self.rows = rows;
        self.rooms.clear();
        self.rooms.resize(sms, Room::empty_sm(device));
        self.caps.clear();
        self.caps.resize(sms * rows, 0);
        self.placed.clear();
        self.placed.resize(rows, 0);
        self.full.clear();
        self.full.resize(rows, 0);
    }

    /// Permits one more block of a row on an SM, if there is room; returns whether there was.
    pub fn place(&mut self, sm: usize, row: usize, block: &BlockShape) -> bool {
        let fits = self.rooms[sm].holds(block);
        if fits {
            self.rooms[sm].take(block, 1);
            self.caps[sm * self.rows + row] += 1;
            self.placed[row] += 1;
        }
        fits
    }

    /// Permits up to `blocks` more blocks of a row, one an SM in turn from SM `first` on; returns how many found room.
    pub fn place_in_turn(
        &mut self,
        row: usize,
        block: &BlockShape,
        (first, blocks): (usize, u64),
    ) -> u64 {
        let sms = self.rooms.len();
        let (mut placed, mut refused) = (0, 0);
        for step in 0.. {
            if placed == blocks || refused == sms {
                break;
            }
            match self.place((first + step) % sms, row, block) {
                true => (placed, refused) = (placed + 1, 0),
                false => refused += 1,
            }
        }
        placed
    }

    /// Gives each tenant of `rows` its part of the device: as many blocks as its weight's part of each resource holds,
    /// `min(T/(K w), L/(K m), R/(K r))` with equal weights (accelOS, section 3), at least one, and a few more
    /// where these are all that it has ([`WHOLE`]), as far as there is room. Several rows of a tenant divide its part,
    /// in their order. `most` says how many blocks the row at a place can use.
    pub fn give_parts(&mut self, book: &Book, rows: &[RowId], most: impl Fn(usize) -> u64) {
        let all_weights = self.find_parties(book, rows);
        let mut sm = 0;
        for (place, row) in rows.iter().enumerate() {
            let Some(info) = book.row(*row) else {
                continue;
            };
            let parties = &mut self.parties;
            let Some(party) = parties.iter_mut().find(|party| party.tenant == info.tenant) else {
                continue;
            };
            if party.given >= 1.0 {
                continue;
            }
            let weight = u64::from(book.weight(info.tenant));
            let part = part(book.shape(), &info.block, (weight, all_weights));
            let (own, most) = ((part / party.rows).max(1), most(place));
            let is_whole = most as f64 <= WHOLE * own as f64;
            let blocks = if is_whole { most } else { own };
            party.given += blocks as f64 / part as f64;
            let placed = self.place_in_turn(place, &info.block, (sm, blocks));
            // The next row's odd blocks go where this one's did not.
            sm = (sm + usize::try_from(placed).unwrap_or(0)) % self.rooms.len();
        }
    }

    /// Lists the tenants of rows; returns the sum of their weights.
    fn find_parties(&mut self, book: &Book, rows: &[RowId]) -> u64 {
        self.parties.clear();
        for info in rows.iter().filter_map(|row| book.row(*row)) {
            let tenant = info.tenant;
            match self.parties.iter_mut().find(|party| party.tenant == tenant) {
                Some(party) => party.rows += 1,
                None => self.parties.push(Party {
                    tenant,
                    rows: 1,
                    given: 0.0,
                }),
            }
        }
        let weights = self.parties.iter().map(|party| book.weight(party.tenant));
        weights.map(u64::from).sum()
    }

    /// Gives rows what is left over, block by block and row after row, until nothing fits.
    pub fn fill_up(&mut self, book: &Book, rows: &[RowId], most: impl Fn(usize) -> u64) {
        let mut fits = true;
        while std::mem::take(&mut fits) {
            for (place, row) in rows.iter().enumerate() {
                if let Some(info) = book.row(*row)
                    && self.placed[place] < most(place)
                {
                    fits |= self.place_first(place, &info.block);
                }
            }
        }
    }

    /// Permits one more block of a row on the first SM with room for it; returns whether there was one.
    fn place_first(&mut self, row: usize, block: &BlockShape) -> bool {
        while self.full[row] < self.rooms.len() {
            if self.place(self.full[row], row, block) {
                return true;
            }
            // Room only shrinks, so it need not be looked at again.
            self.full[row] += 1;
        }
        false
    }

    /// Returns the cap of a row on the SMs of a group.
    #[must_use]
    pub fn cap(&self, group: usize, row: usize) -> u16 {
        self.caps[self.groups[group].0 * self.rows + row]
    }

    /// Puts SMs with the same caps into groups, which fill free room and give blocks up as is said.
    pub fn groups(
        &mut self,
        (order, preemption, surplus): (DispatchOrder, Preemption, Surplus),
        groups: &mut Vec<Group>,
    ) {
        self.groups.clear();
        for sm in 0..self.rooms.len() {
            let caps = |sm: usize| &self.caps[sm * self.rows..(sm + 1) * self.rows];
            let alike = |(first, _): &(usize, SmSet)| caps(*first) == caps(sm);
            let place = self.groups.iter().position(alike).unwrap_or_else(|| {
                self.groups.push((sm, SmSet::empty()));
                self.groups.len() - 1
            });
            let id = SmId(u16::try_from(sm).unwrap_or(u16::MAX));
            self.groups[place].1.insert(id);
        }
        groups.clear();
        groups.extend(self.groups.iter().map(|(_, sms)| Group {
            sms: *sms,
            order,
            preemption,
            head_of_line: false,
            surplus,
        }));
    }
}

/// Returns how many blocks a weight's part of the device holds, at least one.
fn part(device: &DeviceShape, block: &BlockShape, (weight, all): (u64, u64)) -> u64 {
    let holds = |of_sm: u32, each: u32| {
        let part = u64::from(of_sm) * u64::from(device.sms) * weight / all.max(1);
        part.checked_div(u64::from(each)).unwrap_or(u64::MAX)
    };
    holds(device.threads, block.threads)
        .min(holds(device.registers, block.registers))
        .min(holds(device.shared_bytes, block.shared_bytes))
        .min(holds(device.blocks, 1))
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::CapTable;
    use crate::plan::{DispatchOrder, Preemption, Surplus};
    use crate::shape::{BlockShape, DeviceShape};

    #[test]
    fn blocks_go_to_sms_in_turn_and_equal_sms_form_a_group() {
        let device = DeviceShape {
            threads: 100,
            ..DeviceShape::small(3)
        };
        let block = BlockShape::of_threads(40);
        let mut table = CapTable::default();
        table.begin(&device, 2);
        assert_eq!(table.place_in_turn(0, &block, (2, 4)), 4);
        assert_eq!(table.place_in_turn(1, &block, (0, 9)), 2, "two an SM fit");
        let mut groups = Vec::new();
        let how = (DispatchOrder::Arrival, Preemption::None, Surplus::Idle);
        table.groups(how, &mut groups);
        // SM 2 took the first and the fourth block of row 0.
        assert_eq!(groups.len(), 2);
        assert_eq!((table.cap(0, 0), table.cap(0, 1)), (1, 1));
        assert_eq!((table.cap(1, 0), table.cap(1, 1)), (2, 0));
    }
}
