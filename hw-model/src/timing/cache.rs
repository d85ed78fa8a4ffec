//! A sectored, set-associative cache: which sectors of which lines are there, and from when on.
//!
//! L1 and L2 share it. Rules: the least recently used line of a set goes first, lines that wait for a fill never
//! go; a tag is the line number itself, so any mapping of lines to sets is sound.

/// State of one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    tag: u64,
    used: u64,
    generation: u32,
    /// From when on the last fill is there.
    pub(crate) ready_at: u64,
    pub(crate) valid: u8,
    pub(crate) dirty: u8,
    /// Sectors on their way.
    pub(crate) pending: u8,
    /// Who waits for each pending sector: a number of the owner's.
    pub(crate) waiting: [u32; 4],
}

const EMPTY: Line = Line {
    tag: u64::MAX,
    used: 0,
    generation: 0,
    ready_at: 0,
    valid: 0,
    dirty: 0,
    pending: 0,
    waiting: [0; 4],
};

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    lines: Vec<Line>,
    sets: u64,
    ways: usize,
    clock: u64,
    /// Lines of an older generation are empty.
    generation: u32,
}

/// A line that had to go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evicted {
    pub(crate) line: u64,
    pub(crate) dirty: u8,
}

impl Cache {
    /// A cache of `bytes` bytes in sets of `ways` lines.
    pub(crate) fn new(bytes: u64, ways: u32) -> Self {
        let sets = (bytes / crate::config::LINE_BYTES / u64::from(ways)).max(1);
        let lines = usize::try_from(sets * u64::from(ways)).unwrap_or(1);
        Self {
            lines: vec![EMPTY; lines],
            sets,
            ways: ways as usize,
            clock: 0,
            generation: 1,
        }
    }

    fn set(&self, line: u64, key: u64) -> std::ops::Range<usize> {
        debug_assert!(line != u64::MAX, "the empty tag is no line");
        // A hashed index, so that power-of-two strides spread over all sets.
        let turn = (key / self.sets.next_power_of_two()).wrapping_mul(0x9e37_79b9);
        let hashed = (key ^ turn) % self.sets;
        let first = usize::try_from(hashed).unwrap_or(0) * self.ways;
        first..first + self.ways
    }

    /// The line if it is there, marked as used; `key` chooses the set.
    #[inline]
    pub(crate) fn find(&mut self, line: u64, key: u64) -> Option<&mut Line> {
        let set = self.set(line, key);
        self.clock += 1;
        let clock = self.clock;
        let generation = self.generation;
        let found = self.lines[set]
            .iter_mut()
            .find(|l| l.tag == line && l.generation == generation)?;
        found.used = clock;
        Some(found)
    }

    /// The line, put in place of the least recently used one if it was not there; `None` when every line of the
    /// set waits for a fill.
    #[inline]
    pub(crate) fn find_or_insert(
        &mut self,
        line: u64,
        key: u64,
    ) -> Option<(&mut Line, Option<Evicted>)> {
        let set = self.set(line, key);
        self.clock += 1;
        let (clock, generation) = (self.clock, self.generation);
        let lines = &mut self.lines[set];
        let known = lines
            .iter()
            .position(|l| l.tag == line && l.generation == generation);
        let at = match known {
            Some(at) => at,
            None => {
                let age = |l: &Line| {
                    if l.generation == generation {
                        l.used
                    } else {
                        0
                    }
                };
                let idle = lines
                    .iter()
                    .enumerate()
                    .filter(|(_, l)| l.pending == 0 || l.generation != generation);
                idle.min_by_key(|(_, l)| age(l))?.0
            }
        };
        let place = &mut lines[at];
        let mut evicted = None;
        if known.is_none() {
            if place.dirty != 0 {
                evicted = Some(Evicted {
                    line: place.tag,
                    dirty: place.dirty,
                });
            }
            *place = EMPTY;
            place.tag = line;
            place.generation = generation;
        }
        place.used = clock;
        Some((place, evicted))
    }

    /// Forgets sectors of a line, except those on their way.
    #[inline]
    pub(crate) fn discard(&mut self, line: u64, key: u64, sectors: u8) {
        let set = self.set(line, key);
        let generation = self.generation;
        let mut found = self.lines[set].iter_mut();
        if let Some(entry) = found.find(|l| l.tag == line && l.generation == generation) {
            entry.valid &= !sectors;
        }
    }

    /// Forgets everything, as L1 does at the start of a kernel; nothing may be dirty.
    pub(crate) fn invalidate(&mut self) {
        self.generation += 1;
    }
}
