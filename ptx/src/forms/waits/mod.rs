//! Loops in which a block waits for another one.
//!
//! A block that waits for one that has not started can only be launched together with it: a barrier of the whole grid
//! made of atomic counters, a flag that a later block sets. Such a kernel stays whole. A block that waits for *earlier*
//! ones alone (decoupled look-back: Merrill and Garland, «Single-pass parallel prefix scan», 2016) may take any form,
//! because blocks start in ascending order in all of them. A lock is no such wait: who holds it has started, and runs
//! on.
//!
//! A loop is a *wait* when it does not come to an end by itself ([`exits`], [`bounds`]) and a *poll* decides where it
//! goes: a read whose result only somebody else changes ([`polls`], [`rests`]). Every poll that decides has to be
//! proved to be for earlier blocks ([`earlier`]); what cannot be proved counts as a wait for anybody. Loads and stores
//! of system scope talk to the host or to other GPUs, and such waits are for the whole launch.
//!
//! What goes undetected: waiting by weak reads, without a fence, of memory at an address that moves from round to
//! round, which cannot be told from a search.

mod body;
mod bounds;
mod earlier;
mod exits;
mod memory;
mod polls;
mod rests;
mod sums;
mod values;

use super::Reason;
use super::facts::Found;
use crate::analysis::{CallGraph, Flow};
use crate::decode::{Function, MemoryOrder, Program, Scope};
use body::{Body, Loop};
use earlier::Earlier;
use exits::Exits;
use memory::Reads;
use polls::Polls;
use std::collections::BTreeMap;
use values::Values;

/// What is said of a function before its loops are looked at.
struct Summary {
    reads: Reads,
    /// It has an instruction that may be a poll.
    asks: bool,
    writes: bool,
    axes: [bool; 3],
}

/// Looks for waits in every function; returns the first reason that each gives against cutting its launch.
pub(super) fn judge_all(program: &Program, calls: &CallGraph) -> Vec<Option<Found>> {
    let flows: Vec<Flow> = program.functions.iter().map(Flow::new).collect();
    let bodies = || program.functions.iter().zip(&flows);
    let summaries: Vec<Summary> = bodies()
        .map(|(function, flow)| {
            let body = Body::new(program, function, flow);
            Summary {
                reads: polls::own(&body),
                asks: polls::asks(&body),
                writes: earlier::writes(&body),
                axes: earlier::axes(&body),
            }
        })
        .collect();
    let own: Vec<Reads> = summaries.iter().map(|s| s.reads).collect();
    let judge = Judge {
        program,
        calls,
        reads: polls::of_functions(program, calls, &own),
        recursive: calls.recursive(),
        axes: [0, 1, 2].map(|axis| summaries.iter().any(|s| s.axes[axis])),
        summaries,
    };
    let each = bodies().enumerate();
    each.map(|(n, (f, flow))| judge.function(n, f, flow))
        .collect()
}

struct Judge<'a> {
    program: &'a Program,
    calls: &'a CallGraph,
    summaries: Vec<Summary>,
    /// How each function reads what other blocks may write, its callees included.
    reads: Vec<Reads>,
    recursive: Vec<bool>,
    axes: [bool; 3],
}

impl<'a> Judge<'a> {
    fn function(&self, at: usize, function: &'a Function, flow: &Flow) -> Option<Found> {
        if !self.summaries[at].asks {
            return None;
        }
        // A function that calls itself goes round as a loop does.
        if self.recursive[at] && self.reads[at] == Reads::Strongly {
            let what = format!("call {}", function.name);
            return Some((Reason::BlockWait(what), function.span.start));
        }
        let body = Body::new(self.program, function, flow);
        let found = self.loops(at, &body);
        match body.is_exhausted() {
            true => Some((Reason::LoopsTooDeep, function.span.start)),
            false => found,
        }
    }

    fn loops(&self, at: usize, body: &Body) -> Option<Found> {
        let tangle = body.tangle();
        if body.tails.is_empty() && tangle.is_none() {
            return None;
        }
        let values = Values::new(body);
        let polls = Polls {
            body,
            values: &values,
            functions: &self.reads,
            calls: self.calls,
        };
        let callees = self.calls.callees(at);
        let id = crate::decode::FuncId(u32::try_from(at).unwrap_or(u32::MAX));
        let reached = || self.calls.reached_from(self.program, id);
        let calls = callees.count() > 0 || self.calls.calls_indirectly(at);
        let others_write = calls
            && (reached().iter())
                .any(|f| f.0 as usize != at && self.summaries[f.0 as usize].writes);
        let earlier = Earlier {
            body,
            values: &values,
            axes: self.axes,
            writes_alone: !others_write,
        };
        let natural = body.tails.iter().filter_map(|t| body.loop_at(t.0));
        let wait = |of: &Loop| {
            let found = deciding(body, &polls, of);
            let unproved = found
                .into_iter()
                .find(|&n| is_sys(body, n) || !earlier.is_proved(n))?;
            Some(reason(body, unproved))
        };
        let mut found = None;
        for of in natural {
            found = found.or_else(|| wait(&of));
            if found.is_some() || body.is_exhausted() {
                return found;
            }
        }
        tangle.and_then(|of| wait(&of))
    }
}

/// Returns the polls that a loop waits by; none when it is no wait.
fn deciding(body: &Body, polls: &Polls, of: &Loop) -> Vec<u32> {
    if !body.instructions(of).any(|(n, _)| polls.may_poll(n)) {
        return Vec::new();
    }
    let nothing = BTreeMap::new();
    let exits = |found, knows_polls, is_strict| Exits {
        body,
        values: polls.values,
        of,
        polls: found,
        knows_polls,
        is_strict,
    };
    if exits(&nothing, false, true).ends() {
        return Vec::new();
    }
    let found = polls.of(of);
    let is_strict = found.values().any(|&p| p == Reads::Strongly);
    let exits = exits(&found, true, is_strict);
    match found.is_empty() || exits.ends() {
        true => Vec::new(),
        false => exits.deciding(),
    }
}

fn is_sys(body: &Body, n: u32) -> bool {
    let mods = &body.instruction(n).mods;
    mods.scope == Some(Scope::Sys) || mods.order == Some(MemoryOrder::Mmio)
}

fn reason(body: &Body, n: u32) -> Found {
    let i = body.instruction(n);
    let what = i.mnemonic.to_string();
    let reason = match is_sys(body, n) {
        true => Reason::SystemWait(what),
        false => Reason::BlockWait(what),
    };
    (reason, i.span.start)
}
