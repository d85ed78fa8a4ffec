//! A worker, one load or atomic operation a step, as the rewriter writes it.
//!
//! A worker that was dealt its first ticket begins with it, and counts itself when it sees a cap that binds.
//!
//! Rules: a step reads or writes one word of the set; what a worker knows besides is in its own state. What is fetched
//! ahead may be answered at any time until the worker rejoins. A ticket is one block.

use gridmux_ptx::control::{CAP_UNBOUND, HINT_UNCOUNTED};

/// Words of the set that the device touches; an SM's place is one word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    pub(crate) next: u32,
    pub(crate) placed: u32,
    pub(crate) launched: u32,
    pub(crate) places: Vec<Place>,
}

/// An SM's word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) cap: u32,
    pub(crate) count: u32,
}

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    Sound,
    /// Whoever sees more workers than the cap subtracts himself, whatever has become of the word.
    LookThenSubtract,
    /// A worker over its cap gives the ticket back that it has taken ahead, or means to.
    DropsTicket,
    /// `next` is read, then written.
    ReadThenWrite,
    /// Who stays takes himself for the first.
    HintOfZero,
    /// Who is over the cap runs his tickets in the order in which he hears of them, the last one first.
    LastFirst,
    /// Who leaves for the cap keeps its place.
    KeepsPlace,
    /// Whoever was dealt a ticket takes one from the counter all the same.
    TakesDealt,
}

/// When a worker takes its next ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// While the one before runs.
    Ahead,
    /// At its end, by the cap that it was told.
    Late,
    /// At its end, by the cap of that moment.
    Wary,
}

/// Where a resident worker stands, with its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum At {
    /// Count itself in.
    Enter,
    /// Tell that it was placed.
    TellPlaced { hint: u32, cap: u32 },
    /// Its hint is not below the cap: read the word, and count itself in if it was not.
    Over { told: Option<u32>, hint: u32 },
    /// Stay, or leave by compare-and-swap. `told` is none for a newcomer.
    Weigh {
        seen: Place,
        told: Option<u32>,
        hint: u32,
    },
    /// Take a ticket and wait for it.
    Take { hint: u32, told: u32 },
    /// Broken: write what follows the number that was read.
    Write { hint: u32, told: u32, read: u32 },
    /// Run a ticket while what was fetched ahead is on its way.
    Run {
        hint: u32,
        ticket: u32,
        ran: bool,
        ahead: Ahead,
        cap: Option<u32>,
    },
    /// Broken: run the ticket that is held first, then this one.
    RunHeld { hint: u32, ticket: u32, held: u32 },
    /// No ticket was taken ahead: read the word.
    Retake { hint: u32, told: u32 },
    /// Leave the SM. Who does for want of tickets leaves its place taken.
    Exit,
}

/// The next ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ahead {
    /// It takes none.
    Later,
    /// It is asked for.
    Asked,
    /// It is there.
    Taken(u32),
}

/// What a step did besides moving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// It begins a ticket.
    Began,
    /// It ran a ticket.
    Ran(u32),
    /// It is gone.
    Gone,
}

/// What all workers have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code {
    pub(crate) tickets: u32,
    pub(crate) manner: Manner,
    pub(crate) fault: Fault,
}

impl Code {
    /// Steps of a worker to choose from: a run has up to three that come in any order.
    pub(crate) fn choices(&self, at: At, may_run: bool) -> Vec<u8> {
        let At::Run {
            ran, ahead, cap, ..
        } = at
        else {
            return vec![0];
        };
        let asks = ran || self.manner == Manner::Ahead;
        let open = [
            !ran && may_run,
            asks && ahead == Ahead::Asked,
            asks && cap.is_none(),
            ran && ahead != Ahead::Asked && cap.is_some(),
        ];
        (0..)
            .zip(open)
            .filter_map(|(n, open)| open.then_some(n))
            .collect()
    }

    /// Returns one step of a worker on `sm`, one of its [`Code::choices`].
    pub(crate) fn step(&self, at: At, choice: u8, sm: usize, set: &mut Set) -> (At, Effect) {
        let place = &mut set.places[sm];
        let quiet = |at| (at, Effect::Nothing);
        match at {
            At::Enter => {
                let Place { cap, count } = *place;
                place.count += 1;
                quiet(At::TellPlaced { hint: count, cap })
            }
            At::TellPlaced { hint, cap } => {
                set.placed += 1;
                quiet(match hint < cap {
                    true => At::Take { hint, told: cap },
                    false => At::Over { told: None, hint },
                })
            }
            At::Over { told, hint } => {
                place.count += u32::from(hint == HINT_UNCOUNTED);
                quiet(At::Weigh {
                    seen: *place,
                    told,
                    hint: match hint {
                        HINT_UNCOUNTED => place.count - 1,
                        hint => hint,
                    },
                })
            }
            At::Weigh { seen, told, .. } if seen.count <= seen.cap => {
                let hint = match self.fault {
                    Fault::HintOfZero => 0,
                    _ => seen.count - 1,
                };
                let told = told.unwrap_or(seen.cap);
                quiet(At::Take { hint, told })
            }
            At::Weigh { seen, told, hint } => {
                let seen_again = *place;
                if seen == seen_again || self.fault == Fault::LookThenSubtract {
                    place.count -= u32::from(self.fault != Fault::KeepsPlace);
                    return quiet(At::Exit);
                }
                let seen = seen_again;
                quiet(At::Weigh { seen, told, hint })
            }
            At::Take { hint, told } if self.fault == Fault::ReadThenWrite => {
                let read = set.next;
                quiet(At::Write { hint, told, read })
            }
            At::Take { hint, told } => {
                set.next += 1;
                self.begin(hint, set.next - 1, told)
            }
            At::Write { hint, told, read } => {
                set.next = read + 1;
                self.begin(hint, read, told)
            }
            At::Run { .. } => self.run(at, choice, sm, set),
            At::RunHeld { hint, ticket, held } => {
                let at = At::Run {
                    hint,
                    ticket: held,
                    ran: false,
                    ahead: Ahead::Later,
                    cap: Some(0),
                };
                (at, Effect::Ran(ticket))
            }
            At::Retake { hint, told } => {
                let told = Some(told);
                self.step(At::Over { told, hint }, 0, sm, set)
            }
            At::Exit => (At::Exit, Effect::Gone),
        }
    }

    /// It hears of a ticket, and is to ask for the next if the cap that it was told allows.
    fn begin(&self, hint: u32, ticket: u32, told: u32) -> (At, Effect) {
        if ticket >= self.tickets {
            return (At::Exit, Effect::Nothing);
        }
        let ahead = match hint < told && self.manner != Manner::Wary {
            true => Ahead::Asked,
            false => Ahead::Later,
        };
        let at = At::Run {
            hint,
            ticket,
            ran: false,
            ahead,
            cap: None,
        };
        (at, Effect::Began)
    }

    fn run(&self, at: At, choice: u8, sm: usize, set: &mut Set) -> (At, Effect) {
        let At::Run {
            hint,
            ticket,
            mut ran,
            mut ahead,
            mut cap,
        } = at
        else {
            return (at, Effect::Nothing);
        };
        let mut effect = Effect::Nothing;
        match choice {
            0 => {
                ran = true;
                effect = Effect::Ran(ticket);
            }
            1 => {
                ahead = Ahead::Taken(set.next);
                set.next += 1;
            }
            2 => cap = Some(set.places[sm].cap),
            _ => return self.rejoin(hint, ahead, cap.unwrap_or(0)),
        }
        let held = match (ahead, self.fault) {
            (Ahead::Taken(held), Fault::LastFirst) if !ran && held < self.tickets => held,
            _ => {
                let at = At::Run {
                    hint,
                    ticket,
                    ran,
                    ahead,
                    cap,
                };
                return (at, effect);
            }
        };
        let (ticket, held) = (held, ticket);
        (At::RunHeld { hint, ticket, held }, effect)
    }

    fn rejoin(&self, hint: u32, ahead: Ahead, told: u32) -> (At, Effect) {
        match ahead {
            Ahead::Taken(_) if self.fault == Fault::DropsTicket && hint >= told => (
                At::Over {
                    told: Some(told),
                    hint,
                },
                Effect::Nothing,
            ),
            Ahead::Taken(ticket) => self.begin(hint, ticket, told),
            Ahead::Later | Ahead::Asked => (At::Retake { hint, told }, Effect::Nothing),
        }
    }
}

impl At {
    /// Returns the hint of a worker that has one.
    pub(crate) fn hint(self) -> Option<u32> {
        match self {
            Self::TellPlaced { hint, .. }
            | Self::Over { hint, .. }
            | Self::Weigh { hint, .. }
            | Self::Take { hint, .. }
            | Self::Write { hint, .. }
            | Self::Run { hint, .. }
            | Self::RunHeld { hint, .. }
            | Self::Retake { hint, .. } => (hint != HINT_UNCOUNTED).then_some(hint),
            Self::Enter | Self::Exit => None,
        }
    }

    /// Returns whether it is counted.
    pub(crate) fn is_member(self) -> bool {
        match self {
            Self::Enter | Self::Exit => false,
            _ => self.hint().is_some(),
        }
    }

    /// Returns a worker's first step; `dealt` is the ticket that it was dealt.
    pub(crate) fn first(code: &Code, dealt: Option<u32>) -> Self {
        match dealt {
            Some(ticket) if code.fault != Fault::TakesDealt => {
                code.begin(HINT_UNCOUNTED, ticket, CAP_UNBOUND).0
            }
            _ => Self::Enter,
        }
    }

    /// Returns the ticket that nothing but its own steps stands in front of, if its block has not run.
    pub(crate) fn comes_to(self) -> Option<u32> {
        match self {
            Self::Run {
                ran: true,
                ahead: Ahead::Taken(ticket),
                ..
            } => Some(ticket),
            _ => self.runs(),
        }
    }

    /// Returns the ticket that it runs or is about to run.
    pub(crate) fn runs(self) -> Option<u32> {
        match self {
            Self::Run {
                ticket, ran: false, ..
            }
            | Self::RunHeld { ticket, .. } => Some(ticket),
            _ => None,
        }
    }
}
