//! A sectored, set-associative cache: which sectors of which lines are there, and from when on.
//!
//! L1 and L2 share it. Rules: the least recently used line of a set goes first, lines that wait for a fill only when
//! they are stale; a tag is the line number itself, or in L2 that of a copy, so any mapping of lines to sets is sound.

use std::ops::Range;

/// State of one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// From when on the last fill is there.
    pub(crate) ready_at: u64,
    /// Who waits for each pending sector: a number of the owner's.
    pub(crate) waiting: [u32; 4],
    pub(crate) valid: u8,
    pub(crate) dirty: u8,
    /// Sectors on their way.
    pub(crate) pending: u8,
}

const EMPTY: Line = Line {
    ready_at: 0,
    waiting: [0; 4],
    valid: 0,
    dirty: 0,
    pending: 0,
};

/// Tag of no line.
const NO_LINE: u64 = u64::MAX;

/// The cache. Tags and times of use stand apart from the lines, because a lookup reads all of a set's.
#[derive(Debug)]
pub(crate) struct Cache {
    tags: Vec<u64>,
    used: Vec<u64>,
    lines: Vec<Line>,
    sets: u64,
    /// Logarithm of the number of sets, rounded up.
    set_bits: u32,
    /// Lines of a set that there is memory for.
    ways: usize,
    /// Lines of a set that are in use; one less in the sets from `full_sets` on.
    open_ways: usize,
    full_sets: u64,
    clock: u64,
    /// Lines that were not used since then are empty.
    emptied_at: u64,
}

/// A line that had to go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evicted {
    pub(crate) line: u64,
    pub(crate) dirty: u8,
}

impl Cache {
    /// Makes an empty cache of `bytes` bytes in sets of `ways` lines.
    pub(crate) fn new(bytes: u64, ways: u32) -> Self {
        let sets = (bytes / crate::config::LINE_BYTES / u64::from(ways)).max(1);
        let lines = usize::try_from(sets * u64::from(ways)).unwrap_or(1);
        Self {
            tags: vec![NO_LINE; lines],
            used: vec![0; lines],
            lines: vec![EMPTY; lines],
            sets,
            set_bits: sets.next_power_of_two().trailing_zeros(),
            ways: ways as usize,
            open_ways: ways as usize,
            full_sets: sets,
            clock: 0,
            emptied_at: 0,
        }
    }

    /// Resizes the cache to `bytes` bytes, at most those that it was made with, and empties it.
    ///
    /// Sets lose a line each, one after the other; when half of the lines are gone there are half as many sets.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let lines = (bytes / crate::config::LINE_BYTES).max(1);
        let all = self.lines.len() as u64 / self.ways as u64;
        self.sets = all;
        while self.sets > 1 && lines * 2 <= self.sets * self.ways as u64 {
            self.sets = self.sets.div_ceil(2);
        }
        // Every set keeps a line.
        self.sets = self.sets.min(lines);
        self.set_bits = self.sets.next_power_of_two().trailing_zeros();
        let open = usize::try_from(lines.div_ceil(self.sets)).unwrap_or(1);
        self.open_ways = open.clamp(1, self.ways);
        self.full_sets = lines
            .saturating_sub((self.open_ways as u64 - 1) * self.sets)
            .min(self.sets);
        self.invalidate();
    }

    /// Returns the number of the set that `key` chooses.
    #[inline]
    pub(crate) fn set_number(&self, key: u64) -> u64 {
        // A hashed index, so that power-of-two strides spread over all sets.
        let turn = (key >> self.set_bits).wrapping_mul(0x9e37_79b9);
        let mixed = key ^ turn;
        if self.sets.is_power_of_two() {
            mixed & (self.sets - 1)
        } else {
            mixed % self.sets
        }
    }

    /// Returns the places of the lines of the set that `key` chooses.
    #[inline]
    fn set(&self, key: u64) -> Range<usize> {
        let hashed = self.set_number(key);
        let first = usize::try_from(hashed).unwrap_or(0) * self.ways;
        first..first + self.open_ways - usize::from(hashed >= self.full_sets)
    }

    /// Returns the place of the line in a set; `None` if it is not there.
    #[inline]
    fn position(&self, set: Range<usize>, line: u64) -> Option<usize> {
        debug_assert!(line != NO_LINE, "the empty tag is no line");
        let first = set.start;
        let at = first + self.tags[set].iter().position(|tag| *tag == line)?;
        (self.used[at] > self.emptied_at).then_some(at)
    }

    /// Returns the line if it is there, and marks it as used; `key` chooses the set.
    #[inline]
    pub(crate) fn find(&mut self, line: u64, key: u64) -> Option<&mut Line> {
        self.clock += 1;
        let at = self.position(self.set(key), line)?;
        self.used[at] = self.clock;
        Some(&mut self.lines[at])
    }

    /// Returns the line, put in place of the least recently used one if it was not there, and that one's dirty sectors,
    /// if it had any; `None` when every line of the set waits for a fill.
    #[inline]
    pub(crate) fn find_or_insert(
        &mut self,
        line: u64,
        key: u64,
    ) -> Option<(&mut Line, Option<Evicted>)> {
        let set = self.set(key);
        self.clock += 1;
        if let Some(at) = self.position(set.clone(), line) {
            self.used[at] = self.clock;
            return Some((&mut self.lines[at], None));
        }
        let at = self.victim(set.clone())?;
        // A dirty line from before everything was forgotten is still to be written.
        let evicted = (self.lines[at].dirty != 0).then(|| Evicted {
            line: self.tags[at],
            dirty: self.lines[at].dirty,
        });
        self.forget(set, line);
        self.lines[at] = EMPTY;
        self.tags[at] = line;
        self.used[at] = self.clock;
        Some((&mut self.lines[at], evicted))
    }

    /// Tells whether the set that `key` chooses has a place for a new line.
    pub(crate) fn has_room(&self, key: u64) -> bool {
        self.victim(self.set(key)).is_some()
    }

    /// Returns the place for a new line in a set: that of the least recently used line that is stale or waits for no
    /// fill; `None` if there is no such line.
    #[inline]
    fn victim(&self, set: Range<usize>) -> Option<usize> {
        let emptied_at = self.emptied_at;
        let age = |at: &usize| self.used[*at].saturating_sub(emptied_at);
        let idle = |at: &usize| self.lines[*at].pending == 0 || age(at) == 0;
        let oldest = set.clone().min_by_key(age)?;
        if idle(&oldest) {
            return Some(oldest);
        }
        set.filter(idle).min_by_key(age)
    }

    /// Takes the tag off a line that was there before everything was forgotten, so that each tag occurs once.
    #[inline]
    fn forget(&mut self, mut set: Range<usize>, line: u64) {
        if self.emptied_at != 0
            && let Some(stale) = set.find(|at| self.tags[*at] == line)
        {
            self.tags[stale] = NO_LINE;
            self.lines[stale].dirty = 0;
        }
    }

    /// Discards sectors of a line, except those on their way.
    #[inline]
    pub(crate) fn discard(&mut self, line: u64, key: u64, sectors: u8) {
        if let Some(at) = self.position(self.set(key), line) {
            self.lines[at].valid &= !sectors;
        }
    }

    /// Removes a line; nobody may wait for its sectors, and none of them may be dirty.
    #[inline]
    pub(crate) fn remove(&mut self, line: u64, key: u64) {
        if let Some(at) = self.position(self.set(key), line) {
            self.tags[at] = NO_LINE;
            self.lines[at] = EMPTY;
            self.used[at] = 0;
        }
    }

    /// Empties the cache, as is done with L1 between dependent launches and at a new carve-out. Dirty lines of local
    /// memory that lie there are written when something takes their places.
    pub(crate) fn invalidate(&mut self) {
        self.clock += 1;
        self.emptied_at = self.clock;
    }
}
