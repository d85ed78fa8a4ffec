//! The search: every reachable state, each once; then backwards from the ends, which every state must reach.
//!
//! Only the states that are still to be expanded are kept; of the others, 128 bits of hash. A trace is found again
//! by walking it from the first state.

use std::collections::VecDeque;
use std::collections::hash_map::{DefaultHasher, HashMap};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// A state of something that can be searched.
pub(crate) trait State: Debug + Hash + Sized {
    /// What is searched.
    type Config: Debug;
    /// A step between two states, for a trace.
    type Step: Debug;
    /// Returns the first state.
    fn first(config: &Self::Config) -> Self;
    /// Returns all states one step further, each with the step's name, always in the same order.
    fn successors(&self, config: &Self::Config) -> Vec<(Self::Step, Self)>;
    /// Returns what must hold in every state.
    fn check(&self, config: &Self::Config) -> Result<(), String>;
    /// Returns whether everything is done.
    fn has_ended(&self) -> bool;
}

/// States after which a search gives up: its configuration is too large to be a test.
const MOST: usize = 3_000_000;

/// What a search found.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// No state breaks a rule, and each can reach the end.
    Proved { states: usize, ended: usize },
    /// A state breaks a rule.
    Broken { why: String, trace: Vec<String> },
}

/// A state's first predecessor, and which of its successors the state is.
type Origin = (u32, u32);

/// Visits everything.
pub(crate) fn search<W: State>(config: &W::Config) -> Outcome {
    let first = W::first(config);
    let mut numbers = HashMap::from([(fingerprint(&first), 0_u32)]);
    let mut todo = VecDeque::from([first]);
    let mut origins: Vec<Origin> = vec![(0, 0)];
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut ended = Vec::new();
    let mut from = 0;
    while let Some(world) = todo.pop_front() {
        if world.has_ended() {
            ended.push(from);
        }
        for (nth, (_, next)) in (0..).zip(world.successors(config)) {
            let fresh = u32::try_from(origins.len()).expect("fewer than 2^32 states");
            let to = *numbers.entry(fingerprint(&next)).or_insert(fresh);
            edges.push((from, to));
            if to != fresh {
                continue;
            }
            origins.push((from, nth));
            if let Err(why) = next.check(config) {
                let trace = trace::<W>(config, &origins, fresh).0;
                return Outcome::Broken { why, trace };
            }
            assert!(origins.len() < MOST, "more than {MOST} states: {config:?}");
            todo.push_back(next);
        }
        from += 1;
    }
    match cannot_end(origins.len(), &edges, &ended) {
        Some(stuck) => {
            let (trace, world) = trace::<W>(config, &origins, stuck);
            let why = format!("an instance that never ends: {world:?}");
            Outcome::Broken { why, trace }
        }
        None => Outcome::Proved {
            states: origins.len(),
            ended: ended.len(),
        },
    }
}

fn fingerprint(world: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        world.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// Returns the steps from the first state to state `at`, and that state.
fn trace<W: State>(config: &W::Config, origins: &[Origin], mut at: u32) -> (Vec<String>, W) {
    let mut turns = Vec::new();
    while at != 0 {
        let (from, nth) = origins[at as usize];
        turns.push(nth as usize);
        at = from;
    }
    let mut world = W::first(config);
    let mut steps = Vec::new();
    for nth in turns.into_iter().rev() {
        let (step, next) = world.successors(config).swap_remove(nth);
        steps.push(format!("{step:?}"));
        world = next;
    }
    (steps, world)
}

/// Returns the first state from which no end can be reached.
fn cannot_end(states: usize, edges: &[(u32, u32)], ended: &[u32]) -> Option<u32> {
    let mut starts = vec![0_u32; states + 1];
    for (_, to) in edges {
        starts[*to as usize + 1] += 1;
    }
    for n in 0..states {
        starts[n + 1] += starts[n];
    }
    let mut fill = starts.clone();
    let mut into = vec![0_u32; edges.len()];
    for (from, to) in edges {
        let place = &mut fill[*to as usize];
        into[*place as usize] = *from;
        *place += 1;
    }
    let mut reaches = vec![false; states];
    let mut todo = ended.to_vec();
    ended.iter().for_each(|n| reaches[*n as usize] = true);
    while let Some(n) = todo.pop() {
        let span = starts[n as usize] as usize..starts[n as usize + 1] as usize;
        for &from in &into[span] {
            if !reaches[from as usize] {
                reaches[from as usize] = true;
                todo.push(from);
            }
        }
    }
    let unreached = |(n, reaches): (u32, &bool)| (!reaches).then_some(n);
    (0..).zip(&reaches).find_map(unreached)
}
