//! Backward liveness over the control-flow graph, on value classes rather than registers.
//!
//! The caller maps registers to classes (or to none, for values that need no register), so that copies count once.

use super::flow::Flow;
use super::operands::{Access, for_each_register};
use crate::decode::{Function, RegId};

/// Bytes that the sets of one function may take, besides as many as [`TIMES_TEXT`] says; larger functions are not
/// analysed.
const MAX_BYTES: usize = 1 << 18;
/// Bytes of sets for each byte of the function's text: compilers' kernels need a tenth of it.
const TIMES_TEXT: usize = 6;
/// Nor is what has not settled after this many word operations, about a second's worth.
const MAX_WORK: usize = 1 << 30;

/// A set of classes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    /// Adds a member; returns true when it was not there.
    pub(crate) fn insert(&mut self, n: u32) -> bool {
        let word = &mut self.0[n as usize / 64];
        let old = *word;
        *word |= 1 << (n % 64);
        old != *word
    }

    /// Removes a member; returns true when it was there.
    pub(crate) fn remove(&mut self, n: u32) -> bool {
        let word = &mut self.0[n as usize / 64];
        let old = *word;
        *word &= !(1 << (n % 64));
        old != *word
    }

    /// Members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().enumerate().flat_map(|(w, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros();
                    left &= left - 1;
                    u32::try_from(w * 64).unwrap_or(u32::MAX) + bit
                })
            })
        })
    }
}

/// Which classes are live where blocks meet.
pub(crate) struct Liveness<'a> {
    flow: &'a Flow,
    /// Words of a set.
    words: usize,
    /// What is live at the start of each block, one set behind the other.
    live_in: Vec<u64>,
}

impl<'a> Liveness<'a> {
    /// Works it out; `None` when the function is too large to analyse.
    pub(crate) fn new(
        function: &Function,
        flow: &'a Flow,
        classes: usize,
        class: impl Fn(RegId) -> Option<u32>,
    ) -> Option<Self> {
        let (blocks, words) = (flow.blocks.len(), classes.div_ceil(64));
        let text = function.span.end.saturating_sub(function.span.start) as usize;
        let bytes = blocks
            .saturating_mul(words)
            .saturating_mul(2 * size_of::<u64>());
        if bytes > MAX_BYTES.saturating_add(TIMES_TEXT.saturating_mul(text)) {
            return None;
        }
        let mut live_in = vec![0_u64; blocks * words];
        let mut written = live_in.clone();
        for (b, block) in flow.blocks.iter().enumerate() {
            for i in &function.body[block.first as usize..block.end as usize] {
                for_each_register(i, |r, access| {
                    let Some(c) = class(r) else { return };
                    let (at, bit) = (b * words + c as usize / 64, 1_u64 << (c % 64));
                    if access == Access::Write {
                        written[at] |= bit;
                    } else if written[at] & bit == 0 {
                        live_in[at] |= bit;
                    }
                });
            }
        }
        let mut found = Self {
            flow,
            words,
            live_in,
        };
        found.settle(&written).then_some(found)
    }

    /// Spreads what is live backwards until nothing changes; false when that takes too long.
    fn settle(&mut self, written: &[u64]) -> bool {
        let (flow, words) = (self.flow, self.words);
        if words == 0 {
            return true;
        }
        let blocks = u32::try_from(flow.blocks.len()).unwrap_or(u32::MAX);
        let mut queued = vec![true; flow.blocks.len()];
        let mut work: Vec<u32> = (0..blocks).collect();
        let mut left = MAX_WORK;
        let mut out = vec![0; words];
        while let Some(b) = work.pop() {
            let sets = flow.successors(b).len() + 1;
            match left.checked_sub(sets * words) {
                Some(rest) => left = rest,
                None => return false,
            }
            queued[b as usize] = false;
            self.out_into(b, &mut out);
            let at = b as usize * words;
            let mut changed = false;
            for ((to, out), written) in
                (self.live_in[at..at + words].iter_mut().zip(&out)).zip(&written[at..])
            {
                let new = *to | (out & !written);
                changed |= new != *to;
                *to = new;
            }
            if changed {
                for &p in flow.predecessors(b) {
                    if !std::mem::replace(&mut queued[p as usize], true) {
                        work.push(p);
                    }
                }
            }
        }
        true
    }

    /// Returns what is live at the start of a block.
    fn live_in(&self, block: u32) -> &[u64] {
        let at = block as usize * self.words;
        &self.live_in[at..at + self.words]
    }

    fn out_into(&self, block: u32, out: &mut [u64]) {
        out.fill(0);
        for &s in self.flow.successors(block) {
            for (to, from) in out.iter_mut().zip(self.live_in(s)) {
                *to |= from;
            }
        }
    }

    /// Returns the classes live at the end of a block.
    pub(crate) fn live_out(&self, block: u32) -> Set {
        let mut out = vec![0; self.words];
        self.out_into(block, &mut out);
        Set(out)
    }
}

/// Returns the registers that may be read before they are written; `None` when the function is too large to analyse.
pub(crate) fn live_at_entry(function: &Function, flow: &Flow) -> Option<Vec<RegId>> {
    let liveness = Liveness::new(function, flow, function.registers.len(), |r| Some(r.0))?;
    if flow.blocks.is_empty() {
        return Some(Vec::new());
    }
    let live = Set(liveness.live_in(0).to_vec());
    Some(live.iter().map(RegId).collect())
}
