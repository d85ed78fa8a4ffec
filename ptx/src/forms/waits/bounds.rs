//! Whether a comparison ends a loop within a sensible number of rounds.
//!
//! One side moves in every round, the other one stays. The comparison has to be passed in the direction of the step, or
//! met exactly by steps of one. Against a constant the rounds are counted: no counter passes its type's largest number,
//! and one that takes a day to arrive ends nothing. Everything else that is not known counts as zero: how large a bound
//! gets that is a parameter or computed is the program's word.

use super::exits::Exits;
use super::sums::{Reach, Sum, Thing};
use super::values::each;
use crate::analysis::{Access, for_each_register};
use crate::decode::{AtomOp, Comparison, Opcode, Operand, ScalarType, SpecialReg};

/// Most rounds that a constant bound may allow: a tenth of a second to some seconds of polling.
const MAX_ROUNDS: i128 = 1 << 24;
/// Most ticks of a clock that a constant may allow for: some minutes.
const MAX_TICKS: i128 = 1 << 40;
/// Most values of a bound that are told apart.
const MAX_BOUNDS: usize = 64;

/// How a value goes on in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Stays,
    Steps(Steps),
    /// With the clock, or against it.
    Clock {
        up: bool,
    },
}

/// What is added in a round; both numbers have the same sign.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Steps {
    nearest: i64,
    farthest: i64,
    /// Whether nobody else moves it.
    is_own: bool,
}

impl Pace {
    /// Returns the pace of a multiple; `None` is unknown.
    fn times(self, factor: i64) -> Option<Self> {
        Some(match self {
            Self::Stays => Self::Stays,
            Self::Clock { up } if factor.abs() == 1 => Self::Clock {
                up: up == (factor > 0),
            },
            Self::Clock { .. } => return None,
            Self::Steps(s) => Self::Steps(Steps {
                nearest: s.nearest.checked_mul(factor)?,
                farthest: s.farthest.checked_mul(factor)?,
                ..s
            }),
        })
    }

    /// Returns the pace of a sum; `None` is unknown.
    fn plus(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Stays, p) | (p, Self::Stays) => Some(p),
            (Self::Steps(a), Self::Steps(b)) if (a.nearest > 0) == (b.nearest > 0) => {
                Some(Self::Steps(Steps {
                    nearest: a.nearest.checked_add(b.nearest)?,
                    farthest: a.farthest.checked_add(b.farthest)?,
                    is_own: a.is_own && b.is_own,
                }))
            }
            _ => None,
        }
    }

    /// Returns whether it goes up; `None` where it stays, or steps are too large for a register of 32 bits.
    fn is_up(self) -> Option<bool> {
        match self {
            Self::Stays => None,
            Self::Clock { up } => Some(up),
            Self::Steps(s) => i32::try_from(s.farthest).ok().map(|s| s > 0),
        }
    }
}

/// What a comparison asks of the side that moves.
#[derive(Clone, Copy)]
enum Asks {
    /// To be past the other side, or at it with `reaches`.
    Passes { up: bool, reaches: bool },
    /// To be equal.
    Meets,
    /// To be another one.
    Leaves,
}

impl Asks {
    fn of(comparison: Comparison, wanted: bool) -> Option<Self> {
        use Comparison as C;
        let (up, reaches) = match (comparison, wanted) {
            (C::Ge | C::Hs, true) | (C::Lt | C::Lo, false) => (true, true),
            (C::Gt | C::Hi, true) | (C::Le | C::Ls, false) => (true, false),
            (C::Le | C::Ls, true) | (C::Gt | C::Hi, false) => (false, true),
            (C::Lt | C::Lo, true) | (C::Ge | C::Hs, false) => (false, false),
            (C::Ne, true) | (C::Eq, false) => return Some(Self::Leaves),
            (C::Eq, true) | (C::Ne, false) => return Some(Self::Meets),
            _ => return None,
        };
        Some(Self::Passes { up, reaches })
    }
}

/// The numbers that a comparison tells apart.
struct Numbers {
    bits: u32,
    is_signed: bool,
    /// The lowest and the highest number that the side which moves is certain to come to.
    range: (i128, i128),
}

impl Numbers {
    /// Returns the number that a constant stands for.
    fn of(&self, constant: i64) -> i128 {
        let modulus = 1_i128 << self.bits;
        let k = i128::from(constant).rem_euclid(modulus);
        match self.is_signed && k >= modulus / 2 {
            true => k - modulus,
            false => k,
        }
    }
}

/// Where a moving side starts.
struct Start {
    constant: i64,
    /// Whether it is the constant; else the constant is what is known of it.
    is_whole: bool,
}

impl Exits<'_, '_> {
    /// Returns whether one side moves towards the other one, which stays or is anything, and comes there. With `lasts`
    /// the comparison has to keep its value from then on.
    pub(super) fn arrives(&self, n: u32, wanted: bool, tail: u32, lasts: bool) -> bool {
        let i = self.body.instruction(n);
        let (Some(comparison), [ty]) = (i.mods.comparison, i.mods.types.as_slice()) else {
            return false;
        };
        let Some(numbers) = self.numbers(*ty, comparison) else {
            return false;
        };
        let sides = [1, 2].map(|at| self.values.operand(n, at, Some(self.of)));
        let [left, right] = &sides;
        let stays = |paces: &[Pace]| paces.iter().all(|&p| p == Pace::Stays);
        let (Some(a), Some(b)) = (self.paces(left, tail), self.paces(right, tail)) else {
            return false;
        };
        let (moving, paces, other, comparison) = match (stays(&a), stays(&b)) {
            (false, true) => (left, a, right, comparison),
            (true, false) => (right, b, left, mirrored(comparison)),
            _ => return false,
        };
        // What is computed from the moving side may move along.
        let is_bound = |t: Thing| self.is_outside(t) || self.is_read(t);
        if !other.iter().all(|o| o.all(is_bound)) {
            return false;
        }
        // What is read in the loop may take back what a step adds.
        if !moving
            .iter()
            .all(|m| m.all(|t| !self.is_read(t) || self.stays(t)))
        {
            return false;
        }
        let stays_outside = other.iter().all(|o| o.all(|t| self.is_outside(t)));
        let is_one = self.of.tails.len() == 1 && moving.len() == 1;
        let Some(bounds) = self.resolved(other) else {
            return false;
        };
        let each = |is: &dyn Fn(&Sum, Pace, &Sum) -> bool| {
            moving.iter().zip(&paces).all(|(m, &pace)| {
                let starts = self.resolved(std::slice::from_ref(m));
                let is = |m: &Sum| m.reach == Reach::Exact && bounds.iter().all(|o| is(m, pace, o));
                starts.is_some_and(|all| all.iter().all(is))
            })
        };
        match Asks::of(comparison, wanted) {
            Some(Asks::Passes { up, reaches }) => each(&|m, pace, o| match pace {
                _ if pace.is_up() != Some(up) => false,
                Pace::Stays => false,
                Pace::Clock { .. } => self.elapses(&numbers, m, up, o),
                Pace::Steps(s) => self.passes(&numbers, (m, s), (up, reaches), o),
            }),
            Some(Asks::Meets) if is_one && stays_outside && !lasts => {
                each(&|m, pace, o| match pace {
                    Pace::Steps(s) => self.meets(&numbers, (m, s), o),
                    _ => false,
                })
            }
            Some(Asks::Leaves) => each(&|_, pace, _| pace.is_up().is_some()),
            _ => false,
        }
    }

    /// Returns the sums in terms of what registers that the loop leaves alone held before it; `None` where that is too
    /// much to say.
    fn resolved(&self, sums: &[Sum]) -> Option<Vec<Sum>> {
        let before = |thing: Thing| match thing {
            Thing::Head(r) if self.is_outside(thing) => self.values.before(self.of, r),
            _ => vec![Sum::of(thing)],
        };
        let mut found = Vec::new();
        for sum in sums {
            // A constant may be larger than sums are.
            if let [(things, 1)] = sum.terms.as_slice()
                && let ([thing], 0, Reach::Exact) = (things.as_slice(), sum.constant, sum.reach)
            {
                found.extend(before(*thing));
                continue;
            }
            let mut ways = vec![Sum {
                terms: Vec::new(),
                ..sum.clone()
            }];
            for (things, factor) in &sum.terms {
                let mut products = vec![Sum::constant(*factor)];
                for &thing in things {
                    products = joined(&products, &before(thing), Sum::product)?;
                }
                ways = joined(&ways, &products, Sum::plus)?;
            }
            found.extend(ways);
        }
        self.body.spend(found.len());
        Some(found)
    }

    /// Returns the numbers that a comparison of integers tells apart; `None` for others.
    fn numbers(&self, ty: ScalarType, comparison: Comparison) -> Option<Numbers> {
        use Comparison as C;
        use ScalarType as T;
        let bits = match ty {
            T::B32 | T::U32 | T::S32 => 32,
            T::B64 | T::U64 | T::S64 => 64,
            _ => return None,
        };
        let is_signed =
            matches!(ty, T::S32 | T::S64) && !matches!(comparison, C::Lo | C::Ls | C::Hi | C::Hs);
        let highest = match (bits, is_signed) {
            (32, false) => i128::from(u32::MAX),
            (64, _) if !self.widens() => i128::from(i64::MAX),
            _ => i128::from(i32::MAX),
        };
        // Below zero a number of 64 bits that was widened from 32 is another one.
        let lowest = match bits == 32 && is_signed {
            true => i128::from(i32::MIN),
            false => 0,
        };
        Some(Numbers {
            bits,
            is_signed,
            range: (lowest, highest),
        })
    }

    /// Returns whether the loop puts numbers of 32 bits into registers of 64, where they cannot come past 32 bits.
    fn widens(&self) -> bool {
        use SpecialReg as S;
        self.body.spend(self.of.blocks.len());
        self.body.instructions(self.of).any(|(_, i)| {
            let mut is_wide = false;
            for_each_register(i, |r, access| {
                let size = self.body.function.registers[r.0 as usize].size_bytes();
                is_wide |= access != Access::Read && size == 8;
            });
            let is_short = |o: &Operand| matches!(o, Operand::Special(S::Clock | S::GlobaltimerLo));
            let narrow = i.mods.types.last().is_some_and(|t| t.size_bytes() < 8);
            is_wide && (narrow || i.operands.iter().any(is_short))
        })
    }

    /// Returns whether so many ticks from a start end soon: the bound is a start of the program's, or a parameter, and
    /// a constant.
    fn elapses(&self, numbers: &Numbers, moving: &Sum, up: bool, other: &Sum) -> bool {
        let is_start = |t: &Thing| match t {
            Thing::Clock(n) => !self.of.has(self.body.block_of(*n)),
            Thing::Thread(_) | Thing::Ctaid(_) | Thing::Nctaid(_) | Thing::Ntid(_) => false,
            Thing::Variable(_) => false,
            _ => true,
        };
        let mut things = moving.terms.iter().chain(&other.terms).flat_map(|t| &t.0);
        let bound = match other.as_constant() {
            Some(k) => numbers.of(k),
            None => i128::from(other.constant),
        };
        let ticks = bound - i128::from(moving.constant);
        // In half of the numbers the time is over, so that no round comes too late to see it.
        let limit = MAX_TICKS.min(numbers.range.1 / 2);
        things.any(is_start)
            && match up {
                true => ticks <= limit,
                false => numbers.is_signed && -ticks <= limit,
            }
    }

    /// Returns whether steps come past a bound.
    fn passes(
        &self,
        numbers: &Numbers,
        (moving, steps): (&Sum, Steps),
        (up, reaches): (bool, bool),
        other: &Sum,
    ) -> bool {
        let Some(bound) = other.as_constant() else {
            return true;
        };
        let (lowest, highest) = numbers.range;
        let bound = numbers.of(bound);
        // The last number with which the loop goes on, and the one that may be next.
        let last = match (up, reaches) {
            (true, true) => bound - 1,
            (false, true) => bound + 1,
            (_, false) => bound,
        };
        let next = last + i128::from(steps.farthest);
        let rounds = |start: Start| {
            let constant = i128::from(start.constant);
            let first = match (start.is_whole, numbers.bits == 64) {
                (false, _) => constant,
                (true, false) => numbers.of(start.constant),
                (true, true) if up => constant,
                (true, true) => constant.rem_euclid(1 << 64),
            };
            (last - first) / i128::from(steps.nearest)
        };
        (lowest..=highest).contains(&bound)
            && (lowest..=highest).contains(&next)
            && self
                .starts(moving)
                .is_some_and(|all| all.into_iter().all(|s| rounds(s) <= MAX_ROUNDS))
    }

    /// Returns whether steps come to be equal to a bound: they are of one.
    fn meets(&self, numbers: &Numbers, (moving, steps): (&Sum, Steps), other: &Sum) -> bool {
        if steps.nearest != steps.farthest || steps.nearest.abs() != 1 || !steps.is_own {
            return false;
        }
        let Some(bound) = other.as_constant() else {
            return true;
        };
        let (lowest, highest) = numbers.range;
        let bound = numbers.of(bound);
        let modulus = 1_i128 << numbers.bits;
        let rounds = |start: Start| {
            let way = bound - i128::from(start.constant);
            match start.is_whole {
                true if numbers.bits == 64 && start.constant < 0 => i128::MAX,
                true => (way * i128::from(steps.nearest)).rem_euclid(modulus),
                false => way.abs(),
            }
        };
        (lowest..=highest).contains(&bound)
            && self
                .starts(moving)
                .is_some_and(|all| all.into_iter().all(|s| rounds(s) <= MAX_ROUNDS))
    }

    /// Returns what a side that moves by steps may be before the first round; `None` where several registers move it.
    fn starts(&self, moving: &Sum) -> Option<Vec<Start>> {
        let is_head = |t: &&(Vec<Thing>, i64)| {
            matches!(t.0.as_slice(), [Thing::Head(_)]) && !self.is_outside(t.0[0])
        };
        let mut heads = moving.terms.iter().filter(is_head);
        let Some((things, factor)) = heads.next() else {
            return Some(vec![Start {
                constant: moving.constant,
                is_whole: false,
            }]);
        };
        let ([Thing::Head(r)], None) = (things.as_slice(), heads.next()) else {
            return None;
        };
        let start = |sum: &Sum| {
            let own = sum.constant.checked_mul(*factor)?;
            Some(Start {
                constant: own.checked_add(moving.constant)?,
                is_whole: moving.terms.len() == 1 && sum.as_constant().is_some(),
            })
        };
        let all = self.values.before(self.of, *r);
        all.iter().map(start).collect()
    }

    /// Returns how each of a side's values goes on; `None` is unknown.
    fn paces(&self, values: &[Sum], tail: u32) -> Option<Vec<Pace>> {
        values.iter().map(|s| self.pace(s, tail)).collect()
    }

    fn pace(&self, sum: &Sum, tail: u32) -> Option<Pace> {
        let mut all = Pace::Stays;
        for (things, factor) in &sum.terms {
            let pace = match things.as_slice() {
                [thing] if self.stays(*thing) => Pace::Stays,
                [Thing::Head(r)] => {
                    let (nearest, farthest) = self.values.steps_between(self.of, tail, *r)?;
                    Pace::Steps(Steps {
                        nearest,
                        farthest,
                        is_own: true,
                    })
                }
                [Thing::Ticket(n)] => self.taken(*n)?,
                [Thing::Clock(_)] => Pace::Clock { up: true },
                all if all.iter().all(|&t| self.stays(t) || self.is_read(t)) => Pace::Stays,
                _ => return None,
            };
            all = all.plus(pace.times(*factor)?)?;
        }
        Some(all)
    }

    /// Returns by how much the numbers go up that an atomic addition of the loop takes; `None` is unknown.
    fn taken(&self, n: u32) -> Option<Pace> {
        let is_poll = !self.knows_polls || self.polls.contains_key(&n);
        if is_poll || self.body.instruction(n).mods.atom != Some(AtomOp::Add) {
            return None;
        }
        let added = self.values.operand(n, 2, None);
        let added: Vec<i64> = added.iter().map(Sum::as_constant).collect::<Option<_>>()?;
        Some(Pace::Steps(Steps {
            nearest: *added.iter().min()?,
            farthest: *added.iter().max()?,
            is_own: false,
        }))
    }

    /// Returns whether something is the same in every round.
    fn stays(&self, thing: Thing) -> bool {
        match thing {
            Thing::Result(n, _) | Thing::Operand(n, _) => !self.of.has(self.body.block_of(n)),
            Thing::Phi(head, _) => !self.of.has(head),
            _ => self.is_outside(thing),
        }
    }

    fn is_read(&self, thing: Thing) -> bool {
        let reads = |n: u32| matches!(self.body.instruction(n).opcode, Opcode::Ld | Opcode::Atom);
        matches!(thing, Thing::Result(n, _) | Thing::Operand(n, _) if reads(n))
    }

    fn is_outside(&self, thing: Thing) -> bool {
        match thing {
            Thing::Head(r) => self.body.writers_in(r, self.of).is_empty(),
            Thing::Ticket(n) | Thing::Clock(n) => !self.of.has(self.body.block_of(n)),
            Thing::Result(..) | Thing::Phi(..) | Thing::Operand(..) | Thing::Before(..) => false,
            _ => true,
        }
    }
}

/// Returns each of some values with each of others; `None` where one is unknown or they are too many.
fn joined(a: &[Sum], b: &[Sum], join: impl Fn(&Sum, &Sum) -> Option<Sum>) -> Option<Vec<Sum>> {
    each(a, b, join).filter(|all| all.len() <= MAX_BOUNDS)
}

/// Returns the comparison with its sides exchanged.
fn mirrored(comparison: Comparison) -> Comparison {
    use Comparison as C;
    match comparison {
        C::Lt => C::Gt,
        C::Le => C::Ge,
        C::Gt => C::Lt,
        C::Ge => C::Le,
        C::Lo => C::Hi,
        C::Ls => C::Hs,
        C::Hi => C::Lo,
        C::Hs => C::Ls,
        same => same,
    }
}
