//! Neighbouring words of shared memory, read by one load.
//!
//! Loads of a block that read words of the same aligned piece of up to 16 bytes become one at the place of the first
//! (`LDS.64`, `LDS.128`), if the same register makes their addresses and its alignment is known.
//! Rule: a load moves up only past instructions that write nothing it reads and do not touch its destination.

use super::alignment::Alignment;
use super::dependence::{Effect, MemoryAccess};
use gridmux_ptx::analysis::{Access, for_each_register};
use gridmux_ptx::decode::{AddressBase, Instruction, Operand, RegId, ScalarType, StateSpace};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes and words that a thread can load at once.
const MOST_BYTES: i64 = 16;
const MOST_WORDS: i64 = 4;
/// Stores that a load is compared with; behind more it stays where it is.
const MOST_STORES: usize = 64;
/// Instructions past which a load moves at most, so that few registers are in use at a time.
const FARTHEST: usize = 512;

/// A scalar load: its place in the block, and that of its word in the piece.
#[derive(Debug, Clone, Copy)]
struct Load {
    at: usize,
    word: i64,
}

/// Loads from one aligned piece of memory, in the order of the block.
#[derive(Debug)]
struct Piece {
    /// Words that it has.
    words: i64,
    loads: Vec<Load>,
}

/// What loads have in common that can be one: the text of the instruction, the bytes of the destination, the register
/// of the address and which of its values, and where the piece begins.
type Key = (Arc<str>, u32, AddressBase, u32, i64);

/// Returns a block with its scalar loads of shared memory made as wide as they may be; `types` has the type of each
/// register.
pub(super) fn widened(
    block: Vec<Instruction>,
    alignment: &Alignment<'_>,
    types: &[ScalarType],
) -> Vec<Instruction> {
    let mut scan = Scan::default();
    for (at, i) in block.iter().enumerate() {
        scan.step(at, i, alignment, types);
    }
    let mut gone = vec![false; block.len()];
    let mut wide = HashMap::new();
    for run in scan.pieces.iter().flat_map(Piece::runs) {
        let first = run.iter().map(|load| load.at).min().unwrap_or(0);
        for load in &run {
            gone[load.at] = load.at != first;
        }
        wide.insert(first, merged(&block, first, &run));
    }
    let kept = block.into_iter().zip(gone).enumerate();
    kept.filter(|(_, (_, gone))| !gone)
        .map(|(at, (i, _))| wide.remove(&at).unwrap_or(i))
        .collect()
}

/// Returns one load in the place of a run of them, whose words are in ascending order.
fn merged(block: &[Instruction], first: usize, run: &[Load]) -> Instruction {
    let mut load = block[first].clone();
    let destinations = run.iter().map(|load| block[load.at].operands[0].clone());
    load.operands[0] = Operand::Vector(destinations.collect());
    load.operands[1] = block[run[0].at].operands[1].clone();
    let mut mods = (*load.mods).clone();
    mods.vector = u8::try_from(run.len()).unwrap_or(1);
    load.mods = Arc::new(mods);
    let (name, ty) = load.mnemonic.rsplit_once('.').unwrap_or_default();
    load.mnemonic = format!("{name}.v{}.{ty}", run.len()).into();
    load
}

impl Piece {
    /// Returns the words that one load can read, in ascending order: all of the piece, or those of a half.
    fn runs(&self) -> Vec<Vec<Load>> {
        let mut sorted = self.loads.clone();
        sorted.sort_unstable_by_key(|load| load.word);
        if i64::try_from(sorted.len()) == Ok(self.words) {
            return vec![sorted];
        }
        let pairs = sorted.chunk_by(|a, b| a.word / 2 == b.word / 2);
        pairs
            .filter(|pair| pair.len() == 2)
            .map(<[Load]>::to_vec)
            .collect()
    }
}

/// A block as far as it has been read.
#[derive(Debug, Default)]
struct Scan {
    pieces: Vec<Piece>,
    /// The last piece of each kind that loads can still join.
    open: HashMap<Key, usize>,
    /// How often each register was written.
    versions: HashMap<RegId, u32>,
    /// Where each register was read or written last.
    touched: HashMap<RegId, usize>,
    /// Stores that a load may pass, with their place in the block and which value of its register their address has.
    stores: Vec<(usize, MemoryAccess, u32)>,
}

impl Scan {
    fn step(
        &mut self,
        at: usize,
        i: &Instruction,
        alignment: &Alignment<'_>,
        types: &[ScalarType],
    ) {
        match Effect::of(i) {
            Effect::Fixed => {
                self.open.clear();
                self.stores.clear();
            }
            Effect::Store(place) => self.stores.push((at, place, self.version(place.base))),
            Effect::Load(place) => self.load(at, i, &place, (alignment, types)),
            Effect::Registers => {}
        }
        for_each_register(i, |reg, access| {
            self.touched.insert(reg, at);
            if access != Access::Read {
                *self.versions.entry(reg).or_insert(0) += 1;
            }
        });
    }

    /// Returns which of its values the register of an address has.
    fn version(&self, base: AddressBase) -> u32 {
        match base {
            AddressBase::Reg(reg) => self.versions.get(&reg).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Adds a load to its piece of memory, or begins one.
    fn load(
        &mut self,
        at: usize,
        i: &Instruction,
        place: &MemoryAccess,
        (alignment, types): (&Alignment<'_>, &[ScalarType]),
    ) {
        let Some(Operand::Reg(destination)) = i.operands.first() else {
            return;
        };
        let scalar = i.guard.is_none() && i.mods.vector <= 1 && place.bytes < MOST_BYTES;
        if !scalar || place.space != StateSpace::Shared || place.offset % place.bytes != 0 {
            return;
        }
        let Some(bytes) = piece_bytes(place, alignment) else {
            return;
        };
        let start = place.offset - place.offset.rem_euclid(bytes);
        let version = self.version(place.base);
        let width = types[destination.0 as usize].size_bytes().max(4);
        let key = (i.mnemonic.clone(), width, place.base, version, start);
        let word = (place.offset - start) / place.bytes;
        let piece = self.open.get(&key).copied();
        let piece = piece.filter(|piece| {
            let loads = &self.pieces[*piece].loads;
            loads.iter().all(|load| load.word != word)
                && at - loads[0].at <= FARTHEST
                && self.may_move(place, version, *destination, loads[0].at)
        });
        match piece {
            Some(piece) => self.pieces[piece].loads.push(Load { at, word }),
            None => {
                self.open.insert(key, self.pieces.len());
                self.pieces.push(Piece {
                    words: bytes / place.bytes,
                    loads: vec![Load { at, word }],
                });
            }
        }
    }

    /// Returns whether a load may stand at an earlier place in the block.
    fn may_move(&self, place: &MemoryAccess, version: u32, destination: RegId, to: usize) -> bool {
        let touched = self.touched.get(&destination).is_some_and(|at| *at >= to);
        let mut passed = self.stores.iter().rev().take_while(|(at, ..)| *at > to);
        let overlaps = passed
            .by_ref()
            .take(MOST_STORES)
            .any(|(_, store, of_store)| store.may_overlap(place, *of_store != version));
        !touched && !overlaps && passed.next().is_none()
    }
}

/// Returns the bytes of the piece that one load can read around a word; `None` where that is the word alone.
fn piece_bytes(place: &MemoryAccess, alignment: &Alignment<'_>) -> Option<i64> {
    let most = MOST_BYTES.min(MOST_WORDS * place.bytes);
    [most, most / 2]
        .into_iter()
        .find(|bytes| *bytes > place.bytes && alignment.is_multiple(place.base, *bytes))
}
