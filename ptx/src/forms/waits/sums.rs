//! What an integer is made of: a constant and multiples of things that are not known.
//!
//! Sums are over the integers: that an index does not overflow its register is the program's word.

use crate::decode::{RegId, SpecialReg, VarId};

/// Most terms of a sum, and most things multiplied in one.
const MAX_TERMS: usize = 12;
const MAX_FACTORS: usize = 3;
/// Largest multiple and constant.
const MAX_FACTOR: i64 = 1 << 40;

/// Something whose value is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Thing {
    /// Bytes of a kernel's parameters: parameter, offset, size in bytes.
    Param(u32, i64, u32),
    /// The address of a variable.
    Variable(u32),
    Ctaid(u8),
    Nctaid(u8),
    Ntid(u8),
    /// `%tid`, `%laneid`, `%warpid`: never negative.
    Thread(u8),
    /// A clock, read by this instruction; later reads give more.
    Clock(u32),
    /// A number that an atomic addition, this instruction, took from a counter.
    Ticket(u32),
    /// What a register held at the head of the loop that is looked at.
    Head(RegId),
    /// What a register held at the head of a loop.
    Phi(u32, RegId),
    /// What a register holds at the body's start.
    Entry(RegId),
    /// What an instruction left in a register.
    Result(u32, RegId),
    /// An operand of an instruction, by its place, of which nothing else is known.
    Operand(u32, usize),
    /// What a register held before an instruction or at the end of the block before it, where that is too much to say.
    Before(u32, RegId),
}

impl Thing {
    /// Returns what a special register that instruction `n` reads holds; `None` for others than these.
    pub(super) fn of_special(register: SpecialReg, n: u32) -> Option<Self> {
        use SpecialReg as S;
        Some(match register {
            S::Ctaid(axis @ 0..=2) => Self::Ctaid(axis),
            S::Nctaid(axis @ 0..=2) => Self::Nctaid(axis),
            S::Ntid(axis @ 0..=2) => Self::Ntid(axis),
            S::Tid(axis @ 0..=2) => Self::Thread(axis),
            S::Laneid => Self::Thread(3),
            S::Warpid => Self::Thread(4),
            S::Clock | S::Clock64 | S::Globaltimer | S::GlobaltimerLo => Self::Clock(n),
            _ => return None,
        })
    }

    pub(super) fn of_variable(variable: VarId) -> Self {
        Self::Variable(variable.0)
    }

    /// Returns whether it differs from block to block.
    pub(super) fn is_of_block(self) -> bool {
        matches!(self, Self::Ctaid(_) | Self::Ticket(_))
    }

    /// Returns whether it is the same in the whole launch.
    pub(super) fn is_of_launch(self) -> bool {
        matches!(
            self,
            Self::Param(..) | Self::Variable(_) | Self::Nctaid(_) | Self::Ntid(_)
        )
    }
}

/// A product of things with a factor.
pub(super) type Term = (Vec<Thing>, i64);

/// How a value stands to its sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Exact,
    /// The sum or less.
    AtMost,
    /// The sum or more.
    AtLeast,
}

impl Reach {
    fn negated(self) -> Self {
        match self {
            Self::Exact => Self::Exact,
            Self::AtMost => Self::AtLeast,
            Self::AtLeast => Self::AtMost,
        }
    }

    pub(super) fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Exact, r) | (r, Self::Exact) => Some(r),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// A value as a sum.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sum {
    /// In ascending order, without repetition or zeros.
    pub(super) terms: Vec<Term>,
    pub(super) constant: i64,
    pub(super) reach: Reach,
}

impl Sum {
    pub(super) fn constant(constant: i64) -> Self {
        Self {
            terms: Vec::new(),
            constant,
            reach: Reach::Exact,
        }
    }

    pub(super) fn of(thing: Thing) -> Self {
        Self {
            terms: vec![(vec![thing], 1)],
            constant: 0,
            reach: Reach::Exact,
        }
    }

    pub(super) fn as_constant(&self) -> Option<i64> {
        (self.terms.is_empty() && self.reach == Reach::Exact).then_some(self.constant)
    }

    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let mut terms = self.terms.clone();
        terms.extend(other.terms.iter().cloned());
        let constant = self.constant.checked_add(other.constant)?;
        Self::made(terms, constant, self.reach.and(other.reach)?)
    }

    pub(super) fn times(&self, factor: i64) -> Option<Self> {
        let scale = |k: i64| k.checked_mul(factor);
        let terms = self
            .terms
            .iter()
            .map(|(t, k)| Some((t.clone(), scale(*k)?)));
        let reach = match factor {
            0.. => self.reach,
            _ => self.reach.negated(),
        };
        Self::made(terms.collect::<Option<_>>()?, scale(self.constant)?, reach)
    }

    pub(super) fn minus(&self, other: &Self) -> Option<Self> {
        self.plus(&other.times(-1)?)
    }

    pub(super) fn product(&self, other: &Self) -> Option<Self> {
        if let Some(k) = other.as_constant() {
            return self.times(k);
        }
        if let Some(k) = self.as_constant() {
            return other.times(k);
        }
        if self.reach != Reach::Exact || other.reach != Reach::Exact {
            return None;
        }
        let one = |sum: &Self| {
            let mut all = sum.terms.clone();
            all.push((Vec::new(), sum.constant));
            all
        };
        let (mut terms, mut constant) = (Vec::new(), 0);
        for (a, k) in one(self) {
            for (b, m) in one(other) {
                let mut things = a.clone();
                things.extend(b);
                things.sort_unstable();
                match (things.is_empty(), k.checked_mul(m)?) {
                    (true, factor) => constant = factor,
                    (false, factor) => terms.push((things, factor)),
                }
            }
        }
        Self::made(terms, constant, Reach::Exact)
    }

    fn made(mut terms: Vec<Term>, constant: i64, reach: Reach) -> Option<Self> {
        terms.sort_unstable();
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for (things, factor) in terms {
            match merged.last_mut() {
                Some(last) if last.0 == things => last.1 = last.1.checked_add(factor)?,
                _ => merged.push((things, factor)),
            }
        }
        merged.retain(|t| t.1 != 0);
        let is_small = |k: i64| k.checked_abs().is_some_and(|k| k <= MAX_FACTOR);
        let fits = merged.len() <= MAX_TERMS
            && is_small(constant)
            && (merged.iter()).all(|(t, k)| t.len() <= MAX_FACTORS && is_small(*k));
        fits.then_some(Self {
            terms: merged,
            constant,
            reach,
        })
    }

    /// Returns the sum without the threads' own parts, which only make it larger or smaller.
    pub(super) fn without_threads(&self) -> Option<Self> {
        let mut left = self.clone();
        left.terms.clear();
        for (things, factor) in &self.terms {
            let counts =
                |t: &Thing| matches!(t, Thing::Thread(_) | Thing::Ntid(_) | Thing::Nctaid(_));
            if things.iter().any(|t| matches!(t, Thing::Thread(_))) && things.iter().all(counts) {
                let reach = if *factor > 0 {
                    Reach::AtLeast
                } else {
                    Reach::AtMost
                };
                left.reach = left.reach.and(reach)?;
            } else {
                left.terms.push((things.clone(), *factor));
            }
        }
        Some(left)
    }

    /// Returns whether every thing in it fulfils the condition.
    pub(super) fn all(&self, is: impl Fn(Thing) -> bool) -> bool {
        self.terms.iter().flat_map(|t| &t.0).all(|&t| is(t))
    }
}
