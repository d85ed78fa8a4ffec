//! Backward liveness over the control-flow graph, on value classes rather than registers.
//!
//! The caller maps registers to classes (or to none, for values that need no register), so that copies count once.

use super::flow::Flow;
use super::operands::{Access, for_each_register};
use crate::decode::{Function, RegId};

/// Blocks times classes beyond this are not analysed: 2^27 bits, 16 MiB a set family.
const MAX_BITS: usize = 1 << 27;
/// Nor is what has not settled after this many word operations, about a second's worth.
const MAX_WORK: usize = 1 << 30;

/// A set of classes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    fn new(classes: usize) -> Self {
        Self(vec![0; classes.div_ceil(64)])
    }

    /// Adds; true when it was not there.
    pub(crate) fn insert(&mut self, n: u32) -> bool {
        let word = &mut self.0[n as usize / 64];
        let old = *word;
        *word |= 1 << (n % 64);
        old != *word
    }

    /// Removes; true when it was there.
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

/// The classes live at the end of each block; `None` when the function is too large to analyse.
pub(crate) fn live_out(
    function: &Function,
    flow: &Flow,
    classes: usize,
    class: &dyn Fn(RegId) -> Option<u32>,
) -> Option<Vec<Set>> {
    if classes.saturating_mul(flow.blocks.len()) > MAX_BITS {
        return None;
    }
    let mut read_first = vec![Set::new(classes); flow.blocks.len()];
    let mut written = read_first.clone();
    for (b, block) in flow.blocks.iter().enumerate() {
        for i in &function.body[block.first as usize..block.end as usize] {
            for_each_register(i, |r, access| {
                let Some(c) = class(r) else { return };
                let word = c as usize / 64;
                if access == Access::Write {
                    written[b].insert(c);
                } else if written[b].0[word] >> (c % 64) & 1 == 0 {
                    read_first[b].insert(c);
                }
            });
        }
    }
    let mut live_in = read_first;
    let mut out = vec![Set::new(classes); flow.blocks.len()];
    let mut predecessors = vec![Vec::new(); flow.blocks.len()];
    for (b, block) in flow.blocks.iter().enumerate() {
        for &s in &block.successors {
            predecessors[s as usize].push(b);
        }
    }
    let mut queued = vec![true; flow.blocks.len()];
    let mut work: Vec<usize> = (0..flow.blocks.len()).collect();
    let mut left = MAX_WORK;
    while let Some(b) = work.pop() {
        let sets = flow.blocks[b].successors.len() + 1;
        left = left.checked_sub(sets * out[b].0.len())?;
        queued[b] = false;
        for &s in &flow.blocks[b].successors {
            let from = &live_in[s as usize];
            for (to, from) in out[b].0.iter_mut().zip(&from.0) {
                *to |= from;
            }
        }
        let mut changed = false;
        for (w, word) in live_in[b].0.iter_mut().enumerate() {
            let new = *word | (out[b].0[w] & !written[b].0[w]);
            changed |= new != *word;
            *word = new;
        }
        if changed {
            for &p in &predecessors[b] {
                if !std::mem::replace(&mut queued[p], true) {
                    work.push(p);
                }
            }
        }
    }
    Some(out)
}

/// Registers that may be read before they are written; `None` when the function is too large to analyse.
pub(crate) fn live_at_entry(function: &Function, flow: &Flow) -> Option<Vec<RegId>> {
    let class = |r: RegId| Some(r.0);
    let out = live_out(function, flow, function.registers.len(), &class)?;
    let (Some(block), Some(live)) = (flow.blocks.first(), out.into_iter().next()) else {
        return Some(Vec::new());
    };
    let mut live = live;
    for i in function.body[block.first as usize..block.end as usize]
        .iter()
        .rev()
    {
        for_each_register(i, |r, access| {
            if access == Access::Write {
                live.remove(r.0);
            }
        });
        for_each_register(i, |r, access| {
            if access != Access::Write {
                live.insert(r.0);
            }
        });
    }
    Some(live.iter().map(RegId).collect())
}
