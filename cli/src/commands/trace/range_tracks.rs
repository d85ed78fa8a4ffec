//! The ranges of programs on a timeline.
//!
//! ```text
//! TENANT
//!   NVTX PID/TID DOMAIN    what is nested in a thread, from each push to its pop, and marks
//!   NVTX PID DOMAIN        what a process started and ended, in any of its threads
//! ```
//!
//! Rules: ranges are the words of tenants: tracks, depth and what is open are bounded, and whatever is not drawn is
//! counted, as is an end without a beginning; a thread's times are in order; what one tenant says ends nothing of
//! another's.

use super::clients::Owner;
use super::lanes::Lanes;
use super::timeline::{MOST, track};
use crate::perfetto::packet::{Event as Mark, Mark as What, Packet};
use gridmux_bpf::{Range, RangeProbe};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The category of a range.
pub(crate) const RANGE: &str = "range";
const MARK: &str = "mark";

/// Most ranges in each other that are drawn.
const MOST_DEPTH: u64 = 64;
/// Most ranges that were started and not ended.
const MOST_OPEN: usize = 1 << 14;

/// The tracks that were made so far.
#[derive(Debug, Default)]
pub(super) struct RangeTracks {
    /// By tenant, process, thread and domain.
    threads: HashMap<(u32, u32, u32, u64), Thread>,
    /// By tenant, process and domain.
    processes: HashMap<(u32, u32, u64), Lanes>,
    /// By tenant, process and range.
    open: HashMap<(u32, u32, u64), Open>,
    /// Tracks of all kinds, [`MOST`] at most.
    made: usize,
    /// Nothing is begun any more.
    is_closed: bool,
    /// What was not drawn.
    left_out: u64,
}

/// A domain's ranges of a thread.
#[derive(Debug)]
struct Thread {
    uuid: u64,
    /// Ranges that it is in, drawn or not.
    depth: u64,
    /// Those of them that are drawn, which are the outer ones.
    drawn: u64,
    last_ns: u64,
}

/// A range that was started and not ended.
#[derive(Debug)]
struct Open {
    start: u64,
    range: Range,
    owner: Owner,
    /// The tenant's track.
    above: u64,
}

impl RangeTracks {
    /// Adds a range of a tenant at a device time; `above` is the tenant's track, `last_uuid` the number of the last
    /// track of all.
    pub(super) fn add(
        &mut self,
        (range, owner, at): (&Range, &Owner, u64),
        (above, last_uuid): (u64, &mut u64),
        packets: &mut Vec<Packet>,
    ) {
        let left_out = match range.what {
            RangeProbe::Start => u64::from(!self.start((range, owner, at), above)),
            RangeProbe::End => match self.open.remove(&(owner.tenant, range.pid, range.range)) {
                // Its start and its end.
                Some(open) => {
                    2 * u64::from(!self.place(&open, Some(at.max(open.start)), last_uuid, packets))
                }
                None => 1,
            },
            _ => u64::from(!self.nested((range, owner, at), (above, last_uuid), packets)),
        };
        self.left_out += left_out;
    }

    /// Begins nothing any more: what is drawn gets its end, and the rest is left out.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Returns how much was not drawn.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Adds the ranges that were started and have not ended, after the last one.
    pub(super) fn finish(&mut self, last_uuid: &mut u64, packets: &mut Vec<Packet>) {
        let mut open: Vec<Open> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_by_key(|open| open.start);
        for open in open {
            let is_drawn = self.place(&open, None, last_uuid, packets);
            self.left_out += u64::from(!is_drawn);
        }
    }

    fn nested(
        &mut self,
        (range, owner, at): (&Range, &Owner, u64),
        (above, last_uuid): (u64, &mut u64),
        packets: &mut Vec<Packet>,
    ) -> bool {
        let key = (owner.tenant, range.pid, range.tid, range.domain);
        let has_room = self.made < MOST && !self.is_closed;
        let thread = match self.threads.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if !has_room => return false,
            Entry::Vacant(room) => {
                self.made += 1;
                *last_uuid += 1;
                let name = format!("NVTX {}/{}{}", range.pid, range.tid, domain(range));
                packets.push(track(*last_uuid, above, &name));
                room.insert(Thread::new(*last_uuid))
            }
        };
        let at = at.max(thread.last_ns);
        thread.last_ns = at;
        let mark = match range.what {
            RangeProbe::Push => (thread.push() && !self.is_closed).then(|| {
                thread.drawn += 1;
                drawn(range, owner, (What::Begin, thread.uuid, RANGE), at)
            }),
            RangeProbe::Pop => {
                (thread.pop()).then(|| Mark::new(at, What::End, thread.uuid, "", ""))
            }
            _ => (!self.is_closed)
                .then(|| drawn(range, owner, (What::Instant, thread.uuid, MARK), at)),
        };
        let is_drawn = mark.is_some();
        packets.extend(mark.map(Packet::Event));
        is_drawn
    }

    /// Returns whether there is room to remember it.
    fn start(&mut self, (range, owner, start): (&Range, &Owner, u64), above: u64) -> bool {
        let has_room = self.open.len() < MOST_OPEN && !self.is_closed;
        if has_room {
            let open = Open {
                start,
                range: range.clone(),
                owner: owner.clone(),
                above,
            };
            let before = self
                .open
                .insert((owner.tenant, range.pid, range.range), open);
            // A number that was there already is a lie of the program's; the first one has no end.
            self.left_out += u64::from(before.is_some());
        }
        has_room
    }

    /// Draws a range that was started, and its end where it has one; returns whether there is room.
    fn place(
        &mut self,
        open: &Open,
        end: Option<u64>,
        last_uuid: &mut u64,
        packets: &mut Vec<Packet>,
    ) -> bool {
        let (range, start) = (&open.range, open.start);
        let key = (open.owner.tenant, range.pid, range.domain);
        let free = self
            .processes
            .get_mut(&key)
            .and_then(|lanes| lanes.free((start, end.unwrap_or(u64::MAX))));
        let lane = match free {
            Some(free) => free,
            None if self.made >= MOST => return false,
            None => {
                self.made += 1;
                let name = format!("NVTX {}{}", range.pid, domain(range));
                let lanes = self.processes.entry(key).or_default();
                lanes.make(
                    end.unwrap_or(u64::MAX),
                    (open.above, &name),
                    last_uuid,
                    packets,
                )
            }
        };
        let begin = drawn(range, &open.owner, (What::Begin, lane, RANGE), start);
        packets.push(Packet::Event(match end {
            Some(_) => begin,
            None => begin.note_text("state", "no end seen"),
        }));
        packets.extend(end.map(|end| Packet::Event(Mark::new(end, What::End, lane, "", ""))));
        true
    }
}

impl Thread {
    fn new(uuid: u64) -> Self {
        Self {
            uuid,
            depth: 0,
            drawn: 0,
            last_ns: 0,
        }
    }

    /// Goes into a range; returns whether it may be drawn: all those around it are, and it is not too deep.
    fn push(&mut self) -> bool {
        self.depth += 1;
        self.drawn + 1 == self.depth && self.depth <= MOST_DEPTH
    }

    /// Goes out of one; returns whether it was drawn.
    fn pop(&mut self) -> bool {
        let was_drawn = self.depth > 0 && self.drawn == self.depth;
        self.depth = self.depth.saturating_sub(1);
        self.drawn -= u64::from(was_drawn);
        was_drawn
    }
}

/// Returns how a track's name ends that is of a domain.
fn domain(range: &Range) -> String {
    match (range.domain, &*range.domain_name) {
        (0, _) => String::new(),
        (number, "") => format!(" domain {number:#x}"),
        (_, name) => format!(" {name}"),
    }
}

fn drawn(
    range: &Range,
    owner: &Owner,
    (what, track, category): (What, u64, &str),
    at: u64,
) -> Mark {
    let name = match &*range.name {
        "" => "(no name)",
        name => name,
    };
    Mark::new(at, what, track, category, name)
        .note_text("tenant", &owner.name)
        .note("pid", range.pid.into())
        .note("tid", range.tid.into())
}

#[cfg(test)]
mod tests {
    use super::{MOST_DEPTH, MOST_OPEN, Owner, RangeTracks};
    use crate::commands::trace::timeline::MOST;
    use crate::perfetto::packet::{Mark, Packet};
    use gridmux_bpf::Range;
    use gridmux_bpf::RangeProbe::{self, End, Mark as Marked, Pop, Push, Start};

    struct Drawn {
        tracks: RangeTracks,
        last_uuid: u64,
        packets: Vec<Packet>,
    }

    impl Drawn {
        fn new() -> Self {
            Self {
                tracks: RangeTracks::default(),
                last_uuid: 9,
                packets: Vec::new(),
            }
        }

        fn add(&mut self, what: RangeProbe, of: (u32, u64, u64), at: u64) {
            self.add_of(1, what, of, at);
        }

        fn add_of(
            &mut self,
            tenant: u32,
            what: RangeProbe,
            (tid, domain, number): (u32, u64, u64),
            at: u64,
        ) {
            let range = Range {
                wall_ns: 0,
                pid: 7,
                tid,
                what,
                domain,
                range: number,
                name: format!("r{at}"),
                domain_name: String::new(),
            };
            let owner = Owner {
                tenant,
                name: "first".into(),
            };
            let on = (5, &mut self.last_uuid);
            self.tracks.add((&range, &owner, at), on, &mut self.packets);
        }

        /// Returns what stands on the tracks without the events' names: the track's name, the mark and the time.
        fn times(&self) -> Vec<(String, Mark, u64)> {
            let events = self.events().into_iter();
            events
                .map(|(track, mark, _, at)| (track, mark, at))
                .collect()
        }

        /// Returns what stands on the tracks, as the track's name, the mark, the event's name and its time.
        fn events(&self) -> Vec<(String, Mark, String, u64)> {
            let name_of = |uuid: u64| {
                let found = self.packets.iter().find_map(|packet| match packet {
                    Packet::Track {
                        uuid: known,
                        name,
                        parent,
                    } if *known == uuid => {
                        assert_eq!(*parent, 5);
                        Some(name.clone())
                    }
                    _ => None,
                });
                found.expect("a track that was made")
            };
            let events = self.packets.iter().filter_map(|packet| match packet {
                Packet::Event(event) => Some(event),
                Packet::Track { .. } => None,
            });
            events
                .map(|event| {
                    (
                        name_of(event.track),
                        event.mark,
                        event.name.clone(),
                        event.time_ns,
                    )
                })
                .collect()
        }
    }

    #[test]
    fn what_is_nested_stands_on_the_track_of_its_thread_and_domain() {
        let mut drawn = Drawn::new();
        for (what, tid, domain, at) in [
            (Push, 8, 0, 10),
            (Push, 8, 0, 20),
            (Push, 8, 0xab, 25),
            (Marked, 8, 0, 27),
            (Pop, 8, 0, 30),
            (Pop, 8, 0xab, 35),
            // A clock that goes back is held where it was.
            (Pop, 8, 0, 5),
            // Begun before the recording, or never.
            (Pop, 8, 0, 40),
            (Pop, 9, 0, 40),
        ] {
            drawn.add(what, (tid, domain, 0), at);
        }
        let own = "NVTX 7/8";
        let other = "NVTX 7/8 domain 0xab";
        let due = [
            (own, Mark::Begin, "r10", 10),
            (own, Mark::Begin, "r20", 20),
            (other, Mark::Begin, "r25", 25),
            (own, Mark::Instant, "r27", 27),
            (own, Mark::End, "", 30),
            (other, Mark::End, "", 35),
            (own, Mark::End, "", 30),
        ];
        let due = due.map(|(track, mark, name, at)| (track.to_owned(), mark, name.to_owned(), at));
        assert_eq!(drawn.events(), due);
        assert_eq!(drawn.tracks.left_out(), 2);
    }

    #[test]
    fn what_overlaps_in_a_process_goes_to_tracks_of_one_name() {
        let mut drawn = Drawn::new();
        for (what, tid, number, at) in [
            (Start, 8, 1, 10),
            (Start, 9, 2, 15),
            (End, 9, 1, 20),
            (End, 8, 2, 30),
            (End, 8, 3, 31),
            (Start, 8, 4, 32),
        ] {
            drawn.add(what, (tid, 0, number), at);
        }
        let times = drawn.times();
        let due = [
            (Mark::Begin, 10),
            (Mark::End, 20),
            (Mark::Begin, 15),
            (Mark::End, 30),
        ];
        assert_eq!(times, due.map(|(mark, at)| ("NVTX 7".to_owned(), mark, at)));
        drawn
            .tracks
            .finish(&mut drawn.last_uuid, &mut drawn.packets);
        let last = drawn.events().pop().unwrap();
        assert_eq!((last.1, last.3), (Mark::Begin, 32), "it has no end");
        assert_eq!(drawn.tracks.left_out(), 1, "an end without a start");
    }

    #[test]
    fn depth_tracks_and_what_is_open_are_bounded_and_counted() {
        let mut drawn = Drawn::new();
        for at in 0..10_000 {
            drawn.add(Push, (8, 0, 0), at);
        }
        for at in 10_000..20_000 {
            drawn.add(Pop, (8, 0, 0), at);
        }
        assert_eq!(drawn.events().len() as u64, 2 * MOST_DEPTH);
        assert_eq!(drawn.tracks.left_out(), 2 * (10_000 - MOST_DEPTH));
        let before = drawn.tracks.left_out();
        for domain in 1..=2 * MOST as u64 {
            drawn.add(Marked, (8, domain, 0), 20_000);
        }
        let tracks = |packets: &[Packet]| {
            let is_track = |packet: &&Packet| matches!(packet, Packet::Track { .. });
            packets.iter().filter(is_track).count()
        };
        assert_eq!(tracks(&drawn.packets), MOST);
        assert_eq!(drawn.tracks.left_out() - before, MOST as u64 + 1);
        let before = drawn.tracks.left_out();
        for number in 0..MOST_OPEN as u64 + 3 {
            drawn.add(Start, (8, 0, number), 30_000);
        }
        assert_eq!(drawn.tracks.left_out() - before, 3);
    }

    #[test]
    fn what_one_tenant_says_ends_nothing_of_another_with_the_same_process_number() {
        let mut drawn = Drawn::new();
        drawn.add_of(1, Push, (8, 0, 0), 10);
        drawn.add_of(1, Start, (8, 0, 5), 10);
        drawn.add_of(2, Pop, (8, 0, 0), 20);
        drawn.add_of(2, End, (8, 0, 5), 20);
        assert_eq!(drawn.tracks.left_out(), 2);
        drawn.add_of(1, Pop, (8, 0, 0), 30);
        drawn.add_of(1, End, (8, 0, 5), 30);
        let ends = drawn.events().into_iter();
        let ends: Vec<u64> = ends
            .filter(|event| event.1 == Mark::End)
            .map(|event| event.3)
            .collect();
        assert_eq!(ends, [30, 30]);
        assert_eq!(drawn.tracks.left_out(), 2);
    }

    #[test]
    fn what_overlaps_where_no_track_is_left_is_left_out_with_its_start() {
        let mut drawn = Drawn::new();
        for tid in 0..u32::try_from(MOST).unwrap() - 1 {
            drawn.add(Marked, (tid, 0, 0), 1);
        }
        for number in 0..3 {
            drawn.add(Start, (8, 0, number), 10 + number);
        }
        for number in 0..3 {
            drawn.add(End, (8, 0, number), 20);
        }
        assert_eq!(drawn.tracks.left_out(), 4, "one of three has a track");
        drawn.add(Start, (8, 0, 4), 20);
        drawn.add(End, (8, 0, 4), 25);
        assert_eq!(drawn.tracks.left_out(), 4, "the track is free again");
        assert_eq!(drawn.tracks.made, MOST);
    }

    #[test]
    fn what_was_drawn_gets_its_end_when_nothing_is_begun_any_more() {
        let mut drawn = Drawn::new();
        drawn.add(Push, (8, 0, 0), 10);
        drawn.add(Start, (8, 0, 1), 11);
        drawn.tracks.close();
        for (what, tid, number, at) in [
            (Push, 8, 0, 12),
            (Marked, 8, 0, 13),
            (Pop, 8, 0, 14),
            (Start, 8, 2, 15),
            (End, 8, 2, 16),
            (Marked, 9, 0, 17),
            (End, 8, 1, 18),
            (Pop, 8, 0, 19),
        ] {
            drawn.add(what, (tid, 0, number), at);
        }
        let times = drawn.times();
        let due = [
            ("NVTX 7/8", Mark::Begin, 10),
            ("NVTX 7", Mark::Begin, 11),
            ("NVTX 7", Mark::End, 18),
            ("NVTX 7/8", Mark::End, 19),
        ];
        assert_eq!(
            times,
            due.map(|(track, mark, at)| (track.to_owned(), mark, at))
        );
        assert_eq!(drawn.tracks.left_out(), 6);
    }
}
