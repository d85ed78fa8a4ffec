//! The probes of ranges and marks, provider `gridmux`, in the process of the program.
//!
//! The arguments of each are, in this order: where the name stands, its bytes, the domain (where the domain's name
//! stands, which ends with a zero; 0 for the program's own), and the range's number; 0 where there is no such thing.
//! `bpf/src/bpf/ranges.bpf.c` reads them by position: an argument may be added at the end, and none may move.
//!
//! Rule: the first function of a probe is all that a call costs while nobody traces.

use super::names::Name;
use gridmux_usdt::{Semaphore, usdt_site};

/// Defines one probe: its semaphore, its site, and the functions that callers see.
macro_rules! probe {
    ($(#[$doc:meta])* $name:ident, $text:literal, $semaphore:ident) => {
        #[used]
        #[unsafe(link_section = ".probes")]
        static $semaphore: Semaphore = Semaphore::new();

        $(#[$doc])*
        pub(super) mod $name {
            use super::{$semaphore, Name, usdt_site};

            /// Returns whether somebody traces it.
            #[inline(always)]
            pub(in super::super) fn is_traced() -> bool {
                $semaphore.is_traced()
            }

            /// Fires it; ask first whether somebody traces it.
            #[cold]
            #[inline(never)]
            pub(in super::super) fn fire(name: &Name, domain: u64, range: u64) {
                let (at, bytes) = name.place();
                usdt_site!("gridmux", $text, $semaphore, fire, u64 at, u64 bytes, u64 domain, u64 range);
            }
        }
    };
}

probe!(
    /// The thread began a range within those that it is in.
    range_push, "range_push", RANGE_PUSH
);
probe!(
    /// The thread ended the range that it began last, of those of the domain.
    range_pop, "range_pop", RANGE_POP
);
probe!(
    /// The process began a range, which any of its threads may end.
    range_start, "range_start", RANGE_START
);
probe!(
    /// The process ended the range of that number.
    range_end, "range_end", RANGE_END
);
probe!(
    /// The thread says that something happened.
    mark, "mark", MARK
);
