//! Two copies and the sequence of the newest one: how a writer publishes and a reader reads without a lock.
//!
//! The copy of sequence n is the one at n modulo 2, so that the sequence in the header is the index of the newest copy
//! as well. The writer fills the copy that is not the newest: it takes that copy's sequence away, writes its words,
//! gives it the new sequence, and then publishes that in the header. A reader reads the newest sequence, the copy, and
//! the copy's sequence once more; it starts again where that has changed, which takes two publications within one
//! reading.
//!
//! Invariants, shown by `tests/loom_page.rs`: **I1** what a reader takes is one publication's words, whole; **I2** a
//! reader that reads again gets the same publication or a newer one.
//!
//! Rule: there is one writer.

use gridmux_sync::shim::{AtomicU64, Ordering, fence};

/// Words before the copies.
pub const HEADER_WORDS: usize = 8;
/// Words of a copy before its bytes: sequence, length, checksum, and one that is 0.
pub const COPY_WORDS: usize = 4;
/// Place of the newest copy's sequence.
pub const SEQUENCE: usize = 3;
/// How often a reader begins at most.
const ATTEMPTS: u32 = 8;

/// Where words are read from.
pub trait Source {
    /// Why a word cannot be read.
    type Error;

    /// Reads words from a place on, each as it is now.
    ///
    /// # Errors
    /// They are not there.
    fn read(&self, from: usize, into: &mut [u64]) -> Result<(), Self::Error>;
}

/// Words of this process's own memory.
impl Source for [AtomicU64] {
    type Error = std::convert::Infallible;

    fn read(&self, from: usize, into: &mut [u64]) -> Result<(), Self::Error> {
        for (word, value) in self[from..][..into.len()].iter().zip(into) {
            // Acquire: a sequence that is read here pairs with the Release stores in `publish`; for the other words it
            // is more than is needed.
            *value = word.load(Ordering::Acquire);
        }
        Ok(())
    }
}

/// Why nothing was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread<E> {
    /// Nothing was published yet.
    Empty,
    /// The copy says that it is longer than a copy can be.
    Length(u64),
    /// Each attempt met a copy that was being written.
    Busy,
    /// The words are not there.
    Source(E),
}

/// The head of a copy, which precedes its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of the publication, from 1 on.
    pub sequence: u64,
    /// Bytes that follow.
    pub length: u64,
    /// Checksum of sequence and bytes.
    pub checksum: u64,
}

/// Returns the place of a publication's copy among words that hold copies of `capacity` words.
fn copy_of(sequence: u64, capacity: usize) -> usize {
    HEADER_WORDS + usize::from(sequence & 1 == 1) * (COPY_WORDS + capacity)
}

/// Returns how many words a page needs whose copies hold `capacity` words.
#[must_use]
pub const fn words_for(capacity: usize) -> usize {
    HEADER_WORDS + 2 * (COPY_WORDS + capacity)
}

/// Returns how many words a number of bytes takes.
#[must_use]
pub const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Publishes the words of a copy under its sequence, which is one more than the last one's.
///
/// # Panics
/// If a copy does not hold that many words, or the page is shorter than its capacity needs.
pub fn publish(page: &[AtomicU64], capacity: usize, head: &Head, words: &[u64]) {
    assert!(words.len() <= capacity, "a copy holds {capacity} words");
    let copy = &page[copy_of(head.sequence, capacity)..][..COPY_WORDS + capacity];
    // relaxed: ordered by the fence.
    copy[0].store(0, Ordering::Relaxed);
    // Release: pairs with the Acquire fence in `read`. A reader that has seen one of the words below sees that the
    // copy's sequence is not what it was.
    fence(Ordering::Release);
    let head_and_words = [head.length, head.checksum, 0];
    for (place, word) in copy[1..].iter().zip(head_and_words.iter().chain(words)) {
        // relaxed: ordered by the fence above and by the stores below.
        place.store(*word, Ordering::Relaxed);
    }
    // Release: pairs with the Acquire loads of sequences in `read`. A reader that sees the sequence sees the words.
    copy[0].store(head.sequence, Ordering::Release);
    page[SEQUENCE].store(head.sequence, Ordering::Release);
}

/// Reads the newest copy into `words`, as many as its length says, which is no more than `capacity`.
///
/// # Errors
/// [`Unread`].
pub fn read<S: Source + ?Sized>(
    page: &S,
    capacity: usize,
    words: &mut Vec<u64>,
) -> Result<Head, Unread<S::Error>> {
    for _ in 0..ATTEMPTS {
        let newest = one(page, SEQUENCE)?;
        if newest == 0 {
            return Err(Unread::Empty);
        }
        let copy = copy_of(newest, capacity);
        let mut head = [0; COPY_WORDS];
        page.read(copy, &mut head).map_err(Unread::Source)?;
        let [sequence, length, checksum, _] = head;
        let taken = usize::try_from(length).map_or(usize::MAX, words_of);
        if sequence == newest && taken <= capacity {
            words.clear();
            words.resize(taken, 0);
            page.read(copy + COPY_WORDS, words)
                .map_err(Unread::Source)?;
        }
        // Pairs with the Release fence in `publish`.
        fence(Ordering::Acquire);
        if sequence != newest || one(page, copy)? != newest {
            continue;
        }
        if taken > capacity {
            return Err(Unread::Length(length));
        }
        return Ok(Head {
            sequence,
            length,
            checksum,
        });
    }
    Err(Unread::Busy)
}

/// Reads one word.
fn one<S: Source + ?Sized>(page: &S, place: usize) -> Result<u64, Unread<S::Error>> {
    let mut word = [0];
    page.read(place, &mut word).map_err(Unread::Source)?;
    Ok(word[0])
}
