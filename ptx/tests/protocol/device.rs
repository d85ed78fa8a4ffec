//! The device's half, one load or atomic operation a step, as the rewriter writes it.
//!
//! Rules: a step reads or writes one word of the set; what a thread knows besides is in its own state.

/// Words of the set that the device touches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    pub(crate) next: u32,
    pub(crate) limit: u32,
    pub(crate) done: u32,
    pub(crate) placed: u32,
    pub(crate) launched: u32,
    pub(crate) caps: Vec<u8>,
    pub(crate) masks: Vec<u32>,
}

/// How a worker that is too many leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Those in slots at or above the cap.
    HighestSlot,
    /// Broken: whoever sees more workers than the cap; the mask word is a count.
    CompareAndDecrement,
}

/// Which free slot below the cap a newcomer tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The lowest.
    Lowest,
    /// Any: the rewriter starts looking at a place that depends on the warp, so that newcomers do not collide.
    Any,
}

/// How a ticket is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// Number and limit are one word, to which the chunk is added.
    OneWord,
    /// Broken: addition to the number, then a look at the limit.
    Separate,
}

/// Where a resident block stands, with its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum At {
    /// ENTER: read the mask.
    ReadMask,
    /// ENTER: read the cap for the slot found.
    ReadCap { mask: u32 },
    /// ENTER: take the slot.
    TakeSlot { slot: u8 },
    /// ENTER: count itself in (broken variant), if the count is still what it was.
    CountIn { count: u32 },
    /// ENTER: tell that it was placed; `slot` is none if it was refused.
    TellPlaced { slot: Option<u8> },
    /// Refused: hold until all are placed or the time is over.
    Hold,
    /// LOOP: compare the slot with the cap.
    CompareCap { slot: u8 },
    /// LOOP: take a number.
    Take { slot: u8 },
    /// LOOP: read the limit (broken variant).
    ReadLimit { slot: u8, next: u32 },
    /// Run one block of a chunk.
    Run {
        slot: u8,
        block: u32,
        first: u32,
        end: u32,
    },
    /// A worker counts its chunk after it ran it.
    CountDone { slot: u8, blocks: u32 },
    /// Clear the slot.
    ClearSlot { slot: u8 },
    /// Leave the SM.
    Exit,
}

/// What a step did besides moving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// It read the cap, so that it no longer acts on an older one.
    SawCap,
    /// It ran a block.
    Ran(u32),
    /// It gave its slot back because of the cap.
    LeftByCap,
    /// It is gone.
    Gone,
}

/// What kind of kernel the block belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code {
    pub(crate) chunk: u32,
    pub(crate) leave: Leave,
    pub(crate) choice: Choice,
    pub(crate) ticket: Ticket,
}

impl Code {
    /// Where a freshly placed block begins.
    pub(crate) fn entry(&self) -> At {
        At::ReadMask
    }

    /// The slots that a block may try next; only reading the cap leaves a choice.
    pub(crate) fn choices(&self, at: At, sm: usize, set: &Set) -> Vec<u8> {
        let At::ReadCap { mask } = at else {
            return vec![0];
        };
        if self.leave == Leave::CompareAndDecrement {
            return vec![0];
        }
        let free = (0..set.caps[sm]).filter(|slot| mask >> slot & 1 == 0);
        let mut free: Vec<u8> = free.collect();
        if self.choice == Choice::Lowest {
            free.truncate(1);
        }
        if free.is_empty() {
            free.push(u8::MAX);
        }
        free
    }

    /// One step of a block on `sm`, with one of its [`Code::choices`].
    // Length: one arm for each place, in the order of the text that the rewriter writes.
    pub(crate) fn step(&self, at: At, choice: u8, sm: usize, set: &mut Set) -> (At, Effect) {
        let quiet = |at| (at, Effect::Nothing);
        match at {
            At::ReadMask => quiet(At::ReadCap {
                mask: set.masks[sm],
            }),
            At::ReadCap { mask } => {
                let to = match self.leave {
                    Leave::HighestSlot if choice == u8::MAX => At::TellPlaced { slot: None },
                    Leave::HighestSlot => At::TakeSlot { slot: choice },
                    Leave::CompareAndDecrement if mask >= u32::from(set.caps[sm]) => {
                        At::TellPlaced { slot: None }
                    }
                    Leave::CompareAndDecrement => At::CountIn { count: mask },
                };
                (to, Effect::SawCap)
            }
            At::TakeSlot { slot } => {
                let mask = set.masks[sm];
                set.masks[sm] |= 1 << slot;
                quiet(if mask >> slot & 1 == 0 {
                    At::TellPlaced { slot: Some(slot) }
                } else {
                    At::ReadCap { mask }
                })
            }
            At::CountIn { count } if set.masks[sm] != count => quiet(At::ReadMask),
            At::CountIn { count } => {
                set.masks[sm] = count + 1;
                quiet(At::TellPlaced { slot: Some(0) })
            }
            At::TellPlaced { slot } => {
                set.placed += 1;
                quiet(slot.map_or(At::Hold, |slot| At::CompareCap { slot }))
            }
            // Whether all were placed or the time is over makes no difference to the state.
            At::Hold => (At::Exit, Effect::Gone),
            At::CompareCap { slot } => {
                let stays = match self.leave {
                    Leave::HighestSlot => slot < set.caps[sm],
                    Leave::CompareAndDecrement => set.masks[sm] <= u32::from(set.caps[sm]),
                };
                let to = if stays {
                    At::Take { slot }
                } else {
                    At::ClearSlot { slot }
                };
                (to, Effect::SawCap)
            }
            At::Take { slot } => {
                let next = set.next;
                set.next += self.chunk;
                quiet(match self.ticket {
                    Ticket::OneWord => self.begin(slot, next, set.limit),
                    Ticket::Separate => At::ReadLimit { slot, next },
                })
            }
            At::ReadLimit { slot, next } => quiet(self.begin(slot, next, set.limit)),
            At::Run {
                slot,
                block,
                first,
                end,
            } => {
                let to = if block + 1 < end {
                    At::Run {
                        slot,
                        block: block + 1,
                        first,
                        end,
                    }
                } else {
                    At::CountDone {
                        slot,
                        blocks: end - first,
                    }
                };
                (to, Effect::Ran(block))
            }
            At::CountDone { slot, blocks } => {
                set.done += blocks;
                quiet(At::CompareCap { slot })
            }
            At::ClearSlot { slot } => {
                match self.leave {
                    Leave::HighestSlot => set.masks[sm] &= !(1 << slot),
                    Leave::CompareAndDecrement => set.masks[sm] -= 1,
                }
                (At::Exit, Effect::LeftByCap)
            }
            At::Exit => (At::Exit, Effect::Gone),
        }
    }

    /// A number was taken; the limit was `limit`.
    fn begin(&self, slot: u8, next: u32, limit: u32) -> At {
        if next >= limit {
            return At::ClearSlot { slot };
        }
        let end = limit.min(next + self.chunk);
        At::Run {
            slot,
            block: next,
            first: next,
            end,
        }
    }
}
