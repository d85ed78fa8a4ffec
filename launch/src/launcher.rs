//! The launcher of one grid: what to do with the device next.
//!
//! Whoever drives a launcher executes the action that [`Launcher::next_action`] gives and answers it. An action is
//! given again until it is answered, so that a device that is full may be asked later:
//!
//! ```text
//! loop {
//!     match launcher.next_action() {
//!         MakeCounters          → allocate zeroed memory     → note(Counters(address))
//!         Launch(piece)         → launch it                  → note(Launched(piece))
//!         ReadCounters(address) → read them                  → note(Read(bytes))
//!         Wait                  → wait for a launch          → note(Placed(number)) or note(Ended(number))
//!         End(fault)            → done
//!     }
//! }
//! ```
//!
//! Pieces: a kernel that is `whole` is launched once; one that can be cut in sub-boxes in ascending order, as its
//! [`Pace`] permits; a worker once, with as many blocks as there are workers. Counters are made for workers and for
//! fenced kernels. A fenced kernel's counters are read whenever one of its launches has ended.

use crate::boxes::{Grid, SubBox, next_box};
use crate::control::{Control, Cover, RecordedFault, Reservation};
use gridmux_ptx::control::{COUNTERS_BYTES, MAX_WORKER_BLOCKS};
use gridmux_ptx::forms::Shape;
use gridmux_ptx::forms::fence::FenceMode;
use gridmux_ptx::kernel::Entry;

/// When the next sub-box is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// When every block of the one before has its place on an SM.
    Placed,
    /// While fewer than this many launches are in flight; 0 is taken for 1.
    InFlight(u32),
}

/// How large and how many the launches are. A form takes no notice of what it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most blocks of a slice; 0 is taken for 1.
    pub slice_blocks: u32,
    /// When the next slice is launched.
    pub pace: Pace,
    /// Most workers: as many blocks as may reside on the device at once; 0 is taken for 1.
    pub workers: u32,
}

/// Why a kernel cannot be launched in its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// Workers count blocks in 31 bits.
    #[error(
        "a grid of {blocks} blocks has more than {MAX_WORKER_BLOCKS}, which workers cannot count"
    )]
    TooManyBlocks {
        /// Blocks of the grid.
        blocks: u64,
    },
    /// The kernel is fenced, and its tenant has no reservation that goes with the fence.
    #[error("a fence of mode {mode:?} does not go with the reservation {reservation:x?}")]
    Reservation {
        /// The reservation that was given.
        reservation: Option<Reservation>,
        /// Mode of the fence.
        mode: FenceMode,
    },
}

/// One launch to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its number: 0 for the first, and one more for each next one.
    pub number: u32,
    /// Its grid in blocks.
    pub grid: [u32; 3],
    /// Its control block, for a kernel that has one.
    pub control: Control,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Allocate [`COUNTERS_BYTES`] of device memory, aligned to 8, all zero, and outside the reservation.
    MakeCounters,
    /// Make this launch.
    Launch(Piece),
    /// Read [`COUNTERS_BYTES`] at this device address.
    ReadCounters(u64),
    /// Wait until a launch is placed or has ended.
    Wait,
    /// Nothing: all launches have ended, with this fault.
    End(Option<RecordedFault>),
}

/// What came of an action, or happened on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The counters are at this device address.
    Counters(u64),
    /// This launch is made; what is to come begins behind its blocks, whatever has changed since it was asked for.
    Launched(Piece),
    /// Every block of the launch of that number has its place on an SM.
    Placed(u32),
    /// The launch of that number has ended.
    Ended(u32),
    /// The bytes of the counters.
    Read([u8; COUNTERS_BYTES as usize]),
}

/// Which pieces the grid is launched in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pieces {
    Whole(Cover),
    Slices,
    Workers {
        blocks: u32,
        workers: u32,
        chunk: u32,
    },
}

/// Where the counters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counters {
    NotNeeded,
    Missing,
    At(u64),
}

/// The launches of one grid of a kernel in its form.
#[derive(Debug, Clone)]
pub struct Launcher {
    grid: Grid,
    pieces: Pieces,
    limits: Limits,
    counters: Counters,
    /// Of a fenced kernel.
    reservation: Option<Reservation>,
    /// Blocks of the grid that are launched.
    launched_blocks: u64,
    /// Launches made.
    launches: u32,
    in_flight: u32,
    /// Every block of the newest launch has its place.
    is_placed: bool,
    /// A launch of a fenced kernel has ended since its counters were read.
    is_unread: bool,
    fault: Option<RecordedFault>,
}

impl Launcher {
    /// Returns the launcher of a kernel by one of its entries. The reservation is the tenant's, and used where the
    /// entry is fenced.
    ///
    /// # Errors
    /// [`LaunchError`].
    pub fn new(
        entry: &Entry,
        grid: [u32; 3],
        limits: Limits,
        reservation: Option<Reservation>,
    ) -> Result<Self, LaunchError> {
        let grid = Grid(grid);
        let reservation = match entry.fence {
            Some(mode) => match reservation.filter(|r| mode.accepts(r.base, r.mask)) {
                None => return Err(LaunchError::Reservation { reservation, mode }),
                fits => fits,
            },
            None => None,
        };
        let pieces = match entry.shape {
            Shape::Slice if grid.is_sliceable() => Pieces::Slices,
            Shape::Slice => Pieces::Whole(Cover::SubBox {
                offset: [0; 3],
                grid: grid.0,
            }),
            Shape::Whole => Pieces::Whole(Cover::Whole),
            Shape::Worker => workers(grid, limits.workers, entry.chunk)?,
        };
        let needs_counters = entry.fence.is_some() || matches!(pieces, Pieces::Workers { .. });
        Ok(Self {
            grid,
            pieces,
            limits,
            counters: match needs_counters {
                true => Counters::Missing,
                false => Counters::NotNeeded,
            },
            reservation,
            launched_blocks: 0,
            launches: 0,
            in_flight: 0,
            is_placed: true,
            is_unread: false,
            fault: None,
        })
    }

    /// Changes the most blocks of the slices to come; 0 is taken for 1.
    pub fn set_slice_blocks(&mut self, blocks: u32) {
        self.limits.slice_blocks = blocks;
    }

    /// Returns what is to be done next.
    #[must_use]
    pub fn next_action(&self) -> Action {
        let counters = match self.counters {
            Counters::Missing => return Action::MakeCounters,
            Counters::At(address) if self.is_unread => return Action::ReadCounters(address),
            Counters::At(address) => address,
            Counters::NotNeeded => 0,
        };
        match self.next_piece(counters) {
            Some(piece) if self.has_room() => Action::Launch(piece),
            None if self.in_flight == 0 => Action::End(self.fault),
            _ => Action::Wait,
        }
    }

    /// Takes note of what came of an action.
    pub fn note(&mut self, answer: Answer) {
        match answer {
            Answer::Counters(address) => self.counters = Counters::At(address),
            Answer::Launched(piece) => {
                self.launched_blocks = match self.pieces {
                    Pieces::Slices => self.launched_blocks + Grid(piece.grid).blocks(),
                    Pieces::Whole(_) | Pieces::Workers { .. } => self.grid.blocks(),
                };
                self.launches += 1;
                self.in_flight += 1;
                self.is_placed = false;
            }
            Answer::Placed(number) => self.is_placed |= number + 1 == self.launches,
            Answer::Ended(number) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.is_placed |= number + 1 == self.launches;
                self.is_unread = self.reservation.is_some();
            }
            Answer::Read(bytes) => {
                self.is_unread = false;
                self.fault = self.fault.or_else(|| RecordedFault::of(&bytes));
            }
        }
    }

    fn has_room(&self) -> bool {
        match self.limits.pace {
            Pace::Placed => self.is_placed,
            Pace::InFlight(most) => self.in_flight < most.max(1),
        }
    }

    /// Returns the launch that comes next; `None` when everything is launched, or after a fault.
    fn next_piece(&self, counters: u64) -> Option<Piece> {
        if self.fault.is_some() || self.launched_blocks >= self.grid.blocks() {
            return None;
        }
        let Self {
            pieces,
            grid: Grid(grid),
            ..
        } = *self;
        let (dims, cover) = match pieces {
            Pieces::Whole(cover) => (grid, cover),
            Pieces::Slices => {
                let most = self.limits.slice_blocks.max(1);
                let SubBox { offset, dims } = next_box(self.grid, self.launched_blocks, most);
                (dims, Cover::SubBox { offset, grid })
            }
            Pieces::Workers {
                blocks,
                workers,
                chunk,
            } => (
                [workers, 1, 1],
                Cover::Tickets {
                    grid,
                    blocks,
                    chunk,
                },
            ),
        };
        Some(Piece {
            number: self.launches,
            grid: dims,
            control: Control {
                cover,
                counters,
                reservation: self.reservation,
                stamps: None,
            },
        })
    }
}

/// Returns no more workers than there are tickets.
fn workers(grid: Grid, most: u32, chunk: u32) -> Result<Pieces, LaunchError> {
    let blocks = grid.blocks();
    let counted = u32::try_from(blocks)
        .ok()
        .filter(|_| blocks <= MAX_WORKER_BLOCKS);
    let Some(count) = counted else {
        return Err(LaunchError::TooManyBlocks { blocks });
    };
    let chunk = chunk.max(1);
    Ok(Pieces::Workers {
        blocks: count,
        workers: most.clamp(1, count.div_ceil(chunk).max(1)),
        chunk,
    })
}

#[cfg(test)]
mod tests {
    use super::{Action, Answer, LaunchError, Launcher, Limits, Pace, Piece};
    use crate::control::{Cover, Reservation};
    use gridmux_ptx::control::{COUNTERS_BYTES, FAULT_KIND_AT, FAULT_LINE_AT};
    use gridmux_ptx::forms::Form;
    use gridmux_ptx::forms::fence::FenceMode;
    use gridmux_ptx::kernel::Entry;

    const LIMITS: Limits = Limits {
        slice_blocks: 4,
        pace: Pace::InFlight(2),
        workers: 3,
    };
    const RESERVATION: Reservation = Reservation {
        base: 4 << 30,
        mask: (4 << 30) - 1,
    };

    fn entry(form: Form) -> Entry {
        Entry {
            shape: form.shape,
            fence: form.fenced.then_some(FenceMode::Window),
            chunk: 2,
            ..Entry::whole("k")
        }
    }

    fn launch(launcher: &mut Launcher) -> Piece {
        let Action::Launch(piece) = launcher.next_action() else {
            panic!("it launches nothing: {:?}", launcher.next_action());
        };
        // The device was full: the same is asked for again.
        assert_eq!(launcher.next_action(), Action::Launch(piece));
        launcher.note(Answer::Launched(piece));
        piece
    }

    #[test]
    fn slices_cover_the_grid_in_order_while_there_is_room() {
        let kernel = entry(Form::SLICE);
        let mut launcher = Launcher::new(&kernel, [10, 1, 1], LIMITS, None).expect("it can be");
        let offset = |piece: &Piece| match piece.control.cover {
            Cover::SubBox {
                offset,
                grid: [10, 1, 1],
            } => offset[0],
            other => panic!("{other:?}"),
        };
        let (first, second) = (launch(&mut launcher), launch(&mut launcher));
        assert_eq!([&first, &second].map(offset), [0, 4]);
        assert_eq!(launcher.next_action(), Action::Wait);
        launcher.note(Answer::Placed(second.number));
        assert_eq!(launcher.next_action(), Action::Wait);
        launcher.note(Answer::Ended(first.number));
        launcher.set_slice_blocks(1);
        let third = launch(&mut launcher);
        assert_eq!((offset(&third), third.grid), (8, [1, 1, 1]));
        launcher.note(Answer::Ended(second.number));
        let last = launch(&mut launcher);
        assert_eq!((offset(&last), last.grid, last.number), (9, [1, 1, 1], 3));
        launcher.note(Answer::Ended(third.number));
        assert_eq!(launcher.next_action(), Action::Wait);
        launcher.note(Answer::Ended(last.number));
        assert_eq!(launcher.next_action(), Action::End(None));
    }

    #[test]
    fn a_slice_counts_as_it_was_launched() {
        let kernel = entry(Form::SLICE);
        let mut launcher = Launcher::new(&kernel, [10, 1, 1], LIMITS, None).expect("it can be");
        let Action::Launch(first) = launcher.next_action() else {
            panic!("it launches nothing: {:?}", launcher.next_action());
        };
        // The size changes while the launch is being made.
        launcher.set_slice_blocks(1);
        launcher.note(Answer::Launched(first));
        let second = launch(&mut launcher);
        assert_eq!((first.grid, second.grid), ([4, 1, 1], [1, 1, 1]));
        let grid = [10, 1, 1];
        let offset = [4, 0, 0];
        assert_eq!(second.control.cover, Cover::SubBox { offset, grid });
    }

    #[test]
    fn a_slice_is_launched_when_the_one_before_is_placed() {
        let limits = Limits {
            pace: Pace::Placed,
            ..LIMITS
        };
        let kernel = entry(Form::SLICE);
        let mut launcher = Launcher::new(&kernel, [12, 1, 1], limits, None).expect("it can be");
        let first = launch(&mut launcher);
        assert_eq!(launcher.next_action(), Action::Wait);
        launcher.note(Answer::Placed(first.number));
        let second = launch(&mut launcher);
        // Of an older launch: it says nothing of the newest.
        launcher.note(Answer::Ended(first.number));
        assert_eq!(launcher.next_action(), Action::Wait);
        // One that has ended was placed, whether anybody said so or not.
        launcher.note(Answer::Ended(second.number));
        assert_eq!(launch(&mut launcher).number, 2);
    }

    #[test]
    fn there_are_no_more_workers_than_tickets() {
        let kernel = entry(Form::WORKER);
        for (blocks, workers) in [(1, 1), (4, 2), (5, 3), (1000, 3)] {
            let grid = [blocks, 1, 1];
            let mut launcher = Launcher::new(&kernel, grid, LIMITS, None).expect("it can be");
            assert_eq!(launcher.next_action(), Action::MakeCounters);
            launcher.note(Answer::Counters(0x100));
            let piece = launch(&mut launcher);
            assert_eq!(piece.grid, [workers, 1, 1], "{blocks} blocks");
            let chunk = 2;
            assert_eq!(
                piece.control.cover,
                Cover::Tickets {
                    grid,
                    blocks,
                    chunk
                }
            );
            assert_eq!(
                (piece.control.counters, piece.control.reservation),
                (0x100, None)
            );
            assert_eq!(launcher.next_action(), Action::Wait);
            launcher.note(Answer::Ended(piece.number));
            assert_eq!(launcher.next_action(), Action::End(None));
        }
        let many = Launcher::new(&kernel, [1 << 16, 1 << 15, 1], LIMITS, None);
        assert_eq!(
            many.err(),
            Some(LaunchError::TooManyBlocks { blocks: 1 << 31 })
        );
    }

    #[test]
    fn a_recorded_fault_is_the_end() {
        let kernel = entry(Form::FENCE_SLICE);
        let fenced = |reservation| Launcher::new(&kernel, [12, 1, 1], LIMITS, reservation);
        assert!(fenced(None).is_err());
        let half = Reservation {
            base: 0,
            mask: (2 << 30) - 1,
        };
        assert!(fenced(Some(half)).is_err());
        let mut launcher = fenced(Some(RESERVATION)).expect("the fence takes it");
        launcher.note(Answer::Counters(64));
        let (first, second) = (launch(&mut launcher), launch(&mut launcher));
        assert_eq!(first.control.reservation, Some(RESERVATION));
        launcher.note(Answer::Ended(first.number));
        assert_eq!(launcher.next_action(), Action::ReadCounters(64));
        let mut counters = [0; COUNTERS_BYTES as usize];
        counters[FAULT_KIND_AT as usize] = 1;
        counters[FAULT_LINE_AT as usize] = 9;
        launcher.note(Answer::Read(counters));
        // A third slice would have room.
        assert_eq!(launcher.next_action(), Action::Wait);
        launcher.note(Answer::Ended(second.number));
        launcher.note(Answer::Read(counters));
        let Action::End(Some(fault)) = launcher.next_action() else {
            panic!("{:?}", launcher.next_action());
        };
        assert_eq!((fault.kind, fault.line, fault.block), (1, 9, 0));
    }

    #[test]
    fn a_grid_without_blocks_is_over_at_once() {
        let kernel = entry(Form::SLICE);
        let launcher = Launcher::new(&kernel, [3, 0, 1], LIMITS, None).expect("it can be");
        assert_eq!(launcher.next_action(), Action::End(None));
    }
}
