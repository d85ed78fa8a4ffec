//! The `gate` form: a ticket at the head of each block, no loop.
//!
//! A launch has as many blocks as the host wants to start. Thread 0 of each takes the next block number, or finds that
//! the limit is reached, and tells the others behind one barrier; they run the body for that block, or leave:
//!
//! ```text
//! if thread 0:  (n, limit) = (next, limit); next += 1          one atomic operation, see crate::control
//!               words = n < limit ? coordinates of n : NONE;   done += 1 where n < limit
//! bar.sync 0;   if words == NONE: exit
//! body
//! ```
//!
//! The body runs once and leaves as it always did, so its exits, barriers and callees do not matter. `done` is counted
//! at the head: a block that took a number below the limit runs to its end before its grid ends.

use super::Reason;
use super::facts::Facts;
use super::frame::{Frame, LOAD_MARK, PLACE_MARK, SAVE_MARK};
use super::ticket;
use crate::control::{COUNTERS_AT, DONE_AT, NO_BLOCK, WORD_BLOCK_AT};
use crate::decode::Program;

/// Why the function stands in the way of tickets, for reasons of its own.
pub(super) fn judge(program: &Program, facts: &Facts, start: u32) -> Option<(Reason, u32)> {
    let old = ticket::judge_module(program).map(|reason| (reason, start));
    old.or_else(|| facts.shared_size.clone())
}

/// Puts the ticket in front of a kernel's body.
pub(super) fn edit(frame: &mut Frame<'_>, facts: &Facts) {
    ticket::rectify_sizes(frame, facts);
    let (p, q) = (frame.scratch("pred", 0), frame.scratch("pred", 1));
    let (number, words) = (ticket::number(frame), frame.scratch("b32", 1));
    let limit = frame.scratch("b32", 3);
    let one = frame.scratch("b32", 4);
    let counters = frame.scratch("b64", 0);
    let told = frame.label("told");
    let is_not_first = ticket::is_not_first(frame, &p);
    let address = ticket::words_address(frame, &words);
    let control = frame.control(COUNTERS_AT);
    let take = ticket::take(frame, &counters, &one, (&number, &limit));
    let clear = match frame.is_fenced() {
        true => ticket::clear_fault(frame, &words),
        false => String::new(),
    };
    let none = frame.label("none");
    frame.at_entry(&format!(
        "{is_not_first} @{p} bra {told}; ld.param.u64 {counters}, {control}; cvta.to.global.u64 {counters}, {counters}; mov.u32 {one}, 1; {take} \
         {address} {clear} setp.ge.u32 {q}, {number}, {limit}; @{q} bra {none}; red.global.add.u32 [{counters}+{DONE_AT}], {one}; {PLACE_MARK} {SAVE_MARK} bra {told}; \
         {none}: mov.u32 {number}, {NO_BLOCK}; st.shared.u32 [{words}+{WORD_BLOCK_AT}], {number}; \
         {told}: {address} bar.sync 0; ld.shared.u32 {number}, [{words}+{WORD_BLOCK_AT}]; setp.eq.u32 {q}, {number}, {NO_BLOCK}; @{q} exit; {LOAD_MARK}"
    ));
}
