//! The proof that a wait is for earlier blocks.
//!
//! The poll's address and the address of everything that the kernel writes are taken apart ([`super::values`]). Both
//! lie at the same parameter or variable, and differ only in the constant: then the word that a block polls is written
//! by a block whose number is known relative to its own. The number is the block's place in the grid, or a number that
//! it took from a counter, and blocks with lower numbers have started.
//!
//! What is assumed of the program: different parameters and variables are different memory, and indices do not
//! overflow.

use super::body::Body;
use super::memory;
use super::sums::{Reach, Sum, Term, Thing};
use super::values::Values;
use crate::decode::{Opcode, Operand, SpecialReg, StateSpace};

/// What the proof knows of a function and its module.
pub(super) struct Earlier<'a, 'b> {
    pub(super) body: &'b Body<'a>,
    pub(super) values: &'b Values<'a>,
    /// The axes on which any function of the module asks for the block's place.
    pub(super) axes: [bool; 3],
    /// Whether nothing but the function itself writes global memory.
    pub(super) writes_alone: bool,
}

/// Returns the axes on which a function asks for the block's place.
pub(super) fn axes(body: &Body) -> [bool; 3] {
    fn note(operand: &Operand, axes: &mut [bool; 3]) {
        match operand {
            Operand::Special(SpecialReg::Ctaid(axis @ 0..=2)) => axes[usize::from(*axis)] = true,
            Operand::Vector(all) => all.iter().for_each(|o| note(o, axes)),
            _ => {}
        }
    }
    let mut axes = [false; 3];
    let operands = body.function.body.iter().flat_map(|i| &i.operands);
    operands.for_each(|o| note(o, &mut axes));
    axes
}

/// Returns whether a function writes global memory.
pub(super) fn writes(body: &Body) -> bool {
    body.numbers().any(|n| memory::writes_global(body, n))
}

impl Earlier<'_, '_> {
    /// Returns whether what a poll reads is written by the block itself or by earlier ones.
    pub(super) fn is_proved(&self, poll: u32) -> bool {
        let i = self.body.instruction(poll);
        if !self.writes_alone
            || !self.body.function.is_entry
            || !matches!(i.opcode, Opcode::Ld | Opcode::Atom)
        {
            return false;
        }
        let Some(polled) = self.targets(poll, 1) else {
            return false;
        };
        let mut is_written = vec![false; polled.len()];
        let writes = |n: &u32| memory::writes_global(self.body, *n);
        for n in self.body.numbers().filter(writes) {
            self.body.spend(polled.len());
            // An atomic operation that polls writes nothing new.
            if n == poll {
                continue;
            }
            let operand = memory::address_operand(self.body.instruction(n));
            let Some(written) = self.targets(n, operand) else {
                if self.is_of_block(n, operand) {
                    continue;
                }
                return false;
            };
            for target in &written {
                for (polled, is_written) in polled.iter().zip(&mut is_written) {
                    if polled.root == target.root {
                        if !self.comes_first(target, polled) {
                            return false;
                        }
                        *is_written = true;
                    }
                }
            }
        }
        is_written.iter().all(|&w| w)
    }

    /// Returns where an instruction reads or writes; `None` where that is not at one parameter or variable.
    fn targets(&self, n: u32, operand: usize) -> Option<Vec<Target>> {
        let i = self.body.instruction(n);
        let bytes = i.mods.types.last()?.size_bytes() * u32::from(i.mods.vector.max(1));
        let one = |sum: &Sum| {
            let root = self.root(sum)?;
            let sum = sum.without_threads()?;
            let bytes = i64::from(bytes);
            Some(Target { root, sum, bytes })
        };
        self.values.address(n, operand).iter().map(one).collect()
    }

    /// Returns whether a generic address is certain to lie in the block's shared memory or the thread's own.
    fn is_of_block(&self, n: u32, operand: usize) -> bool {
        let is_own = |term: &Term| match (term.0.as_slice(), term.1) {
            ([Thing::Variable(v)], 1) => {
                let space = self.body.program.variables[*v as usize].space;
                matches!(space, StateSpace::Shared | StateSpace::Local)
            }
            _ => false,
        };
        let addresses = self.values.address(n, operand);
        addresses.iter().all(|s| s.terms.iter().any(is_own))
    }

    /// Returns the one parameter or variable that an address starts from.
    fn root(&self, sum: &Sum) -> Option<Thing> {
        let mut roots = sum.terms.iter().filter_map(|t| match t {
            (things, 1) => match things.as_slice() {
                [thing @ Thing::Param(_, _, 8)] => Some(*thing),
                [thing @ Thing::Variable(v)] => {
                    let space = self.body.program.variables[*v as usize].space;
                    (space == StateSpace::Global).then_some(*thing)
                }
                _ => None,
            },
            _ => None,
        });
        let root = roots.next()?;
        roots.next().is_none().then_some(root)
    }

    /// Returns whether a write at one place that a poll at the other one sees comes from the block itself or an earlier
    /// one.
    fn comes_first(&self, write: &Target, poll: &Target) -> bool {
        let of_block = |sum: &Sum| -> (Vec<Term>, Vec<Term>) {
            let is_of_block = |t: &Term| t.0.iter().any(|t| t.is_of_block());
            sum.terms.iter().cloned().partition(is_of_block)
        };
        let ((number, rest), (other, other_rest)) = (of_block(&poll.sum), of_block(&write.sum));
        let is_known = rest.iter().flat_map(|t| &t.0).all(|t| t.is_of_launch());
        if number != other || rest != other_rest || !is_known {
            return false;
        }
        let Some((stride, order)) = self.order(&number) else {
            return false;
        };
        // Bytes from the start of the first word that the write may touch to the end of the last one that the poll
        // reads, for a stride that goes up; the other way round else.
        let (first, last) = match stride > 0 {
            true => (write, poll),
            false => (poll, write),
        };
        let is_bounded = matches!(first.sum.reach, Reach::Exact | Reach::AtLeast)
            && matches!(last.sum.reach, Reach::Exact | Reach::AtMost);
        let ahead = last.sum.constant + last.bytes - first.sum.constant;
        is_bounded
            && match order {
                // It may be the block itself.
                Order::Total => ahead <= stride.abs(),
                Order::OfRows => ahead <= 0,
            }
    }

    /// Returns by how many bytes the words of one block and the next lie apart, and what kind of number that is.
    fn order(&self, number: &[Term]) -> Option<(i64, Order)> {
        use Thing::{Ctaid, Nctaid, Ticket};
        let [x, y, z] = self.axes;
        let stride = number.first()?.1;
        if number.iter().any(|t| t.1 != stride) {
            return None;
        }
        let mut things: Vec<&[Thing]> = number.iter().map(|t| t.0.as_slice()).collect();
        things.sort_unstable();
        let order = match things.as_slice() {
            [[Ticket(_)]] => Order::Total,
            [[Ctaid(0)]] if !y && !z => Order::Total,
            [[Ctaid(1)]] if !x && !z => Order::Total,
            [[Ctaid(2)]] if !x && !y => Order::Total,
            [[Ctaid(1)]] if !z => Order::OfRows,
            [[Ctaid(2)]] => Order::OfRows,
            [[Ctaid(0)], [Ctaid(1), Nctaid(0)]] if !z => Order::Total,
            [
                [Ctaid(0)],
                [Ctaid(1), Nctaid(0)],
                [Ctaid(2), Nctaid(0), Nctaid(1)],
            ] => Order::Total,
            _ => return None,
        };
        Some((stride, order))
    }
}

/// Where an instruction reads or writes, relative to what is not known.
struct Target {
    root: Thing,
    sum: Sum,
    bytes: i64,
}

/// What a block's number says of when the block starts.
enum Order {
    /// The block with the lower one starts first.
    Total,
    /// The block with the lower one starts first, but several have the same.
    OfRows,
}
