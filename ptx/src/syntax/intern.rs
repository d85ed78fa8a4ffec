//! Interned names: every identifier and dot-word is hashed once, in the lexer, and is a [`Sym`] from then on.
//!
//! Ids are dense and given in order of first appearance after the seeded vocabulary, so they do not depend on the
//! hash; the hash is keyed per process, so that hostile names cannot be chosen to collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// An interned name. A dot-word is interned without its dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sym(pub(crate) u32);

/// More names than this in one module are refused: a token keeps 24 bits for its name.
pub(crate) const MAX_NAMES: usize = 1 << 24;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0x9e37_79b9_u64));

/// The table of names.
#[derive(Debug, Clone)]
pub(crate) struct Interner {
    text: Vec<u8>,
    /// Where each name ends in `text`; it starts where the one before ends.
    ends: Vec<u32>,
    /// Open addressing: upper hash bits and id + 1, or zero.
    slots: Vec<(u32, u32)>,
    seed: u64,
}

impl Interner {
    pub(crate) fn new() -> Self {
        Self {
            text: Vec::new(),
            ends: Vec::new(),
            slots: vec![(0, 0); 1024],
            seed: *SEED,
        }
    }

    /// Returns how many names there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the name's bytes.
    pub(crate) fn bytes(&self, sym: Sym) -> &[u8] {
        let i = sym.0 as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.text[start..self.ends[i] as usize]
    }

    /// Returns the length of the name in bytes.
    pub(crate) fn name_len(&self, sym: Sym) -> u32 {
        let i = sym.0 as usize;
        self.ends[i] - if i == 0 { 0 } else { self.ends[i - 1] }
    }

    /// Returns the name as text; names are ASCII by construction.
    pub(crate) fn name(&self, sym: Sym) -> &str {
        std::str::from_utf8(self.bytes(sym)).unwrap_or("")
    }

    /// Returns every name, the vocabulary's included.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        (0_u32..).zip(&self.ends).map(|(n, _)| self.name(Sym(n)))
    }

    /// Finds or adds a name.
    pub(crate) fn intern(&mut self, name: &[u8]) -> Sym {
        let (tag, slot) = match self.probe(name) {
            Ok(sym) => return sym,
            Err(free) => free,
        };
        // `MAX_NAMES` is checked by the lexer; text is bounded by the 64 MiB limit of the source plus a small
        // vocabulary.
        #[allow(clippy::cast_possible_truncation)]
        let (id, end) = (
            self.ends.len() as u32,
            (self.text.len() + name.len()) as u32,
        );
        self.text.extend_from_slice(name);
        self.ends.push(end);
        self.slots[slot] = (tag, id + 1);
        if self.ends.len() * 2 > self.slots.len() {
            self.grow();
        }
        Sym(id)
    }

    /// Finds a name without adding it.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Sym> {
        self.probe(name).ok()
    }

    fn probe(&self, name: &[u8]) -> Result<Sym, (u32, usize)> {
        let hash = self.hash(name);
        #[allow(clippy::cast_possible_truncation)]
        let (tag, mut slot) = ((hash >> 32) as u32, hash as usize & (self.slots.len() - 1));
        loop {
            let (t, id) = self.slots[slot];
            if id == 0 {
                return Err((tag, slot));
            }
            if t == tag && self.bytes(Sym(id - 1)) == name {
                return Ok(Sym(id - 1));
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn grow(&mut self) {
        let bigger = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(bigger, (0, 0));
        for i in 0..self.ends.len() {
            #[allow(clippy::cast_possible_truncation)]
            let sym = Sym(i as u32);
            let hash = self.hash(self.bytes(sym));
            #[allow(clippy::cast_possible_truncation)]
            let (tag, mut slot) = ((hash >> 32) as u32, hash as usize & (bigger - 1));
            while self.slots[slot].1 != 0 {
                slot = (slot + 1) & (bigger - 1);
            }
            self.slots[slot] = (tag, sym.0 + 1);
        }
    }

    #[inline]
    fn hash(&self, name: &[u8]) -> u64 {
        let mut h = self.seed ^ name.len() as u64;
        let mut chunks = name.chunks_exact(8);
        for c in &mut chunks {
            h = fold(h ^ u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
        }
        let mut last = 0_u64;
        for &b in chunks.remainder() {
            last = last << 8 | u64::from(b);
        }
        fold(h ^ last)
    }
}

/// The same hash for maps with small keys of numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed(u64);

impl Default for Keyed {
    fn default() -> Self {
        Self(*SEED)
    }
}

impl BuildHasher for Keyed {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for Keyed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u32(u32::from(b));
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = fold(self.0 ^ u64::from(n));
    }
}

#[inline]
fn fold(x: u64) -> u64 {
    let wide = u128::from(x) * 0x9e37_79b9_7f4a_7c15_u128;
    #[allow(clippy::cast_possible_truncation)]
    let (low, high) = (wide as u64, (wide >> 64) as u64);
    low ^ high
}
