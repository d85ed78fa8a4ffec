//! A hit of a probe, as a reader gets it: what happened to which launch, and when.
//!
//! Rule: the traced process chose every number in it, so that none of them may be trusted to be in range.

use crate::cause::Causes;
use crate::layout::RawEvent;
use crate::probes::{NO_GROUP, Probe, ProbeArgs};

/// A hit of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When the probe fired, in nanoseconds of the machine's monotonic clock.
    pub wall_ns: u64,
    /// Whose launch it is, and the device time.
    pub args: ProbeArgs,
    /// What happened.
    pub what: Happening,
}

/// What a probe says beyond whose launch it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// A plan was published.
    Plan {
        /// Plans so far.
        epoch: u64,
        /// Rows that it holds.
        rows: u64,
        /// What the policy had heard of since the one before.
        causes: Causes,
    },
    /// Blocks were handed to the device.
    SliceStart {
        /// Linear number of the first one.
        first_block: u64,
        /// Blocks.
        blocks: u64,
    },
    /// The device finished them.
    SliceEnd {
        /// Linear number of the first one.
        first_block: u64,
        /// Blocks.
        blocks: u64,
        /// From when they were handed over to when the first one started.
        waited_ns: u64,
        /// From then on to the end of the last one.
        ran_ns: u64,
    },
    /// A launch that has begun gives way to others.
    Preempt {
        /// Blocks that have not started.
        blocks_left: u64,
        /// How long who took its room waited for that; 0 where nobody has yet.
        latency_ns: u64,
    },
    /// A preempted launch got room again.
    Resume {
        /// Blocks that have not started.
        blocks_left: u64,
        /// For how long it was preempted.
        out_ns: u64,
    },
    /// A launch ended.
    Complete {
        /// From its submission to its first block's start.
        submit_to_start_ns: u64,
        /// From its submission to its last block's end.
        submit_to_complete_ns: u64,
        /// Blocks of its grid.
        blocks: u64,
        /// How it ended, as its completion says; 0 is success.
        status: u64,
    },
    /// A block ended.
    Block {
        /// The SM that it ran on.
        sm: u64,
        /// Its linear number in the launch's grid.
        block: u64,
        /// From its start to its end.
        ran_ns: u64,
        /// The group of the plan in force that has the SM.
        group: Option<u64>,
    },
}

impl Event {
    /// Returns what a record says; `None` for a probe that no reader gets events of.
    #[must_use]
    pub fn of(raw: &RawEvent) -> Option<Self> {
        let probe = Probe::from_raw(raw.probe.into())?;
        let [a, b, c, d] = raw.values;
        let what = match probe {
            Probe::Submit | Probe::Admit => return None,
            Probe::Plan => Happening::Plan {
                epoch: a,
                rows: b,
                causes: Causes::from_bits(c),
            },
            Probe::SliceStart => Happening::SliceStart {
                first_block: a,
                blocks: b,
            },
            Probe::SliceEnd => Happening::SliceEnd {
                first_block: a,
                blocks: b,
                waited_ns: c,
                ran_ns: d,
            },
            Probe::Preempt => Happening::Preempt {
                blocks_left: a,
                latency_ns: b,
            },
            Probe::Resume => Happening::Resume {
                blocks_left: a,
                out_ns: b,
            },
            Probe::Complete => Happening::Complete {
                submit_to_start_ns: a,
                submit_to_complete_ns: b,
                blocks: c,
                status: d,
            },
            Probe::Block => Happening::Block {
                sm: a,
                block: b,
                ran_ns: c,
                group: (d != NO_GROUP).then_some(d),
            },
        };
        let args = ProbeArgs {
            tenant: raw.tenant,
            device: raw.device,
            kernel: raw.kernel,
            seq: raw.seq,
            time_ns: raw.time_ns,
            client: raw.client,
            key: raw.key,
        };
        Some(Self {
            wall_ns: raw.wall_ns,
            args,
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Happening};
    use crate::layout::RawEvent;
    use crate::probes::Probe;

    #[test]
    fn a_record_of_every_probe_but_those_of_submission_is_an_event() {
        for probe in Probe::ALL {
            let raw = RawEvent {
                probe: u16::try_from(probe as u32).unwrap(),
                values: [1, 2, 3, 4],
                tenant: 7,
                key: u64::MAX,
                ..RawEvent::default()
            };
            let event = Event::of(&raw);
            assert_eq!(
                event.is_none(),
                matches!(probe, Probe::Submit | Probe::Admit)
            );
            if let Some(event) = event {
                assert_eq!((event.args.tenant, event.args.key), (7, u64::MAX));
            }
        }
        let unknown = RawEvent {
            probe: u16::MAX,
            ..RawEvent::default()
        };
        assert_eq!(Event::of(&unknown), None);
        let ended = RawEvent {
            probe: 7,
            values: [1, 2, 3, 4],
            ..RawEvent::default()
        };
        let due = Happening::Complete {
            submit_to_start_ns: 1,
            submit_to_complete_ns: 2,
            blocks: 3,
            status: 4,
        };
        assert_eq!(Event::of(&ended).unwrap().what, due);
    }
}
