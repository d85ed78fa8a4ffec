//! Where everything stands in the ring memory, and who writes it.
//!
//! Page 0 holds a header and one word per 128 bytes (two cache lines, because
//! the spatial prefetcher of x86 fetches lines in pairs):
//!
//! | line | word | written by | read by |
//! |---|---|---|---|
//! | 0 | header: magic, version, sizes | mediator, once | tenant, once |
//! | 1 | submission head | mediator | tenant |
//! | 2 | completion head | tenant | mediator |
//! | 3 | armed: the mediator sleeps | mediator sets, tenant clears | both |
//! | 4 | parked: the tenant sleeps (a futex) | tenant sets, mediator clears | both |
//! | 5 | tenant state ([`super::TenantState`]) | tenant | mediator |
//! | 6 | host state ([`super::HostState`]) | mediator | tenant |
//! | 16 to 19 | releases: one 64-bit word for each stream | tenant | mediator |
//!
//! Then follow, each on its own page boundary, the submission entries (64
//! bytes each, written by the tenant), the completion entries (32 bytes each,
//! written by the mediator) and the argument area (written by the tenant). An
//! entry tells by its turn whether it was published ([`super::queue`]).
//!
//! A release is a word here and no submission, because the ring may be full of
//! what stands behind the hold that it ends; nor is it a control operation,
//! because the one before it may wait for a fence that does.

use thiserror::Error;

/// The word at offset 0 of the memory: "gridmux1" in little endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"gridmux1");
/// The version of this layout, and of the facts in region 0.
pub(crate) const VERSION: u32 = 1;
/// The distance of two index words in bytes.
pub(crate) const LINE_BYTES: usize = 128;
/// A submission entry in bytes.
pub const SUBMISSION_BYTES: usize = 64;
/// A completion entry in bytes.
pub const COMPLETION_BYTES: usize = 32;
/// The most submission entries a ring may have.
pub const MAX_ENTRIES: u32 = 1 << 16;
/// The most bytes of the argument area.
pub const MAX_ARGS_BYTES: u32 = 64 << 20;
const PAGE_BYTES: usize = 4096;
/// Streams whose holds can be released: those with a word in page 0.
pub const RELEASE_STREAMS: u16 = 64;
/// Where the words of releases begin in page 0.
pub(crate) const RELEASES_OFFSET: usize = 16 * LINE_BYTES;
const _: () = assert!(RELEASES_OFFSET + RELEASE_STREAMS as usize * 8 <= PAGE_BYTES);

/// The words of page 0, by line number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Line {
    SubmissionHead = 1,
    CompletionHead = 2,
    Armed = 3,
    Parked = 4,
    TenantState = 5,
    HostState = 6,
}

/// A ring shape that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// A count is no power of two or out of range.
    #[error("{what} is {value}, which must be a power of two from {least} to {most}")]
    Size {
        /// Which size.
        what: &'static str,
        /// Its value.
        value: u32,
        /// The least value accepted.
        least: u32,
        /// The greatest value accepted.
        most: u32,
    },
    /// The header does not carry our magic number.
    #[error(
        "the memory does not start with the ring header; is region 2 that of a gridmux device?"
    )]
    Magic,
    /// The header carries a version that this build does not know.
    #[error("ring layout version {0} is unknown to this build; update the older side")]
    Version(u32),
}

/// The shape of a channel's rings: sizes, and the offsets that follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLayout {
    submission_entries: u32,
    completion_entries: u32,
    args_bytes: u32,
}

impl Default for RingLayout {
    /// 1,024 submissions, 4,096 completions, 1 MiB of arguments.
    fn default() -> Self {
        Self {
            submission_entries: 1024,
            completion_entries: 4096,
            args_bytes: 1 << 20,
        }
    }
}

impl RingLayout {
    /// Returns a layout of the given sizes, each a power of two: `submission_entries`
    /// from 1 to [`MAX_ENTRIES`], `completion_entries` up to four times that,
    /// `args_bytes` from one page to [`MAX_ARGS_BYTES`].
    ///
    /// # Errors
    /// Names the size that is no power of two or out of range.
    pub fn new(
        submission_entries: u32,
        completion_entries: u32,
        args_bytes: u32,
    ) -> Result<Self, LayoutError> {
        check("submission entries", submission_entries, 1, MAX_ENTRIES)?;
        check("completion entries", completion_entries, 1, 4 * MAX_ENTRIES)?;
        check("argument bytes", args_bytes, 4096, MAX_ARGS_BYTES)?;
        Ok(Self {
            submission_entries,
            completion_entries,
            args_bytes,
        })
    }

    /// Returns how many submissions fit.
    #[must_use]
    pub fn submission_entries(&self) -> u32 {
        self.submission_entries
    }

    /// Returns how many completions fit, and so how many submissions may be in flight.
    #[must_use]
    pub fn completion_entries(&self) -> u32 {
        self.completion_entries
    }

    /// Returns the size of the argument area in bytes.
    #[must_use]
    pub fn args_bytes(&self) -> u32 {
        self.args_bytes
    }

    pub(crate) fn submissions_offset(&self) -> usize {
        PAGE_BYTES
    }

    pub(crate) fn completions_offset(&self) -> usize {
        let end = self.submissions_offset() + self.submission_entries as usize * SUBMISSION_BYTES;
        end.next_multiple_of(PAGE_BYTES)
    }

    pub(crate) fn args_offset(&self) -> usize {
        let end = self.completions_offset() + self.completion_entries as usize * COMPLETION_BYTES;
        end.next_multiple_of(PAGE_BYTES)
    }

    /// Returns the size of the whole memory in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.args_offset() + self.args_bytes as usize
    }
}

fn check(what: &'static str, value: u32, least: u32, most: u32) -> Result<(), LayoutError> {
    if value.is_power_of_two() && (least..=most).contains(&value) {
        return Ok(());
    }
    Err(LayoutError::Size {
        what,
        value,
        least,
        most,
    })
}
