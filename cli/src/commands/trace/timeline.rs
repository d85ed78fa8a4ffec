//! A recording as a timeline: which tracks there are, and what stands on them.
//!
//! ```text
//! plans                    an instant for each plan
//! TENANT
//!   submissions            an instant for each launch, and an arrow to it
//!   launches               from its first block's start to its last one's end
//!   KERNEL pieces          from the first block's start to the last one's end
//!   preemptions            an instant for each preemption, and for each return
//!   NVTX ...               ranges of its programs (`range_tracks.rs`)
//! SMs                      where blocks are recorded
//!   SM N                   each block that ended there, from its start to its end
//! ```
//!
//! All times are the device's. A launch is drawn when it has ended, because only then all of its times are known; one
//! of which no end was seen is drawn from its first piece on, without an end.
//! Slices of a track of Perfetto's may not overlap: where they do, more tracks of one name are made, which are shown as
//! one.
//!
//! Rules: a slice goes to the first track of its name whose last slice has ended, and is written as a whole, so that a
//! file which is cut between two packets shows what came until then; tracks are bounded, whatever numbers and times a
//! host invents: what comes beyond goes to the last one.

use super::clients::Owner;
use super::directory::Whose;
use super::lanes::Lanes;
use super::line::failure;
use super::range_tracks::RangeTracks;
use crate::perfetto::packet::{Event as Mark, Mark as What, Packet};
use gridmux_bpf::{Cause, Event, Happening, ProbeArgs, Range};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The categories of what stands on tracks.
pub(crate) const LAUNCH: &str = "launch";
/// See [`LAUNCH`].
pub(crate) const PREEMPT: &str = "preempt";
/// See [`LAUNCH`].
pub(crate) const END: &str = "end";
const PIECE: &str = "piece";
const RESUME: &str = "resume";
const PLAN: &str = "plan";
const BLOCK: &str = "block";
const SUBMISSION: &str = "submission";

/// Most tenants, kernels of a tenant, SMs, and tracks of one name.
pub(super) const MOST: usize = 1024;

/// Most launches that are remembered until they end.
const MOST_OPEN: usize = 1 << 16;

/// The track of plans.
const PLANS: u64 = 1;

/// The tracks that were made so far.
#[derive(Debug)]
pub(super) struct Timeline {
    last_uuid: u64,
    tenants: HashMap<u32, Tenant>,
    /// Launches of which a piece has ended and no end was seen, by their numbers.
    open: BTreeMap<u64, Open>,
    /// The track above those of SMs, which is made with the first block, and theirs.
    sms: (Option<u64>, HashMap<u64, Lanes>),
    ranges: RangeTracks,
}

/// A launch of which no end was seen.
#[derive(Debug)]
struct Open {
    /// Those of the event of its first piece.
    args: ProbeArgs,
    /// Its slice, of no track yet.
    launch: Mark,
}

/// The tracks of a tenant.
#[derive(Debug)]
struct Tenant {
    uuid: u64,
    submissions: u64,
    preemptions: u64,
    launches: Lanes,
    pieces: HashMap<u64, Lanes>,
}

impl Timeline {
    /// Makes a timeline; the packets are its first ones.
    pub(super) fn begin() -> (Self, Vec<Packet>) {
        let timeline = Self {
            last_uuid: PLANS,
            tenants: HashMap::new(),
            open: BTreeMap::new(),
            sms: (None, HashMap::new()),
            ranges: RangeTracks::default(),
        };
        (timeline, vec![track(PLANS, 0, "plans")])
    }

    /// Adds an event.
    pub(super) fn add(&mut self, event: &Event, whose: Whose<'_>, packets: &mut Vec<Packet>) {
        let (args, at) = (&event.args, event.args.time_ns);
        let mark = match event.what {
            Happening::Plan {
                epoch,
                rows,
                causes,
            } => {
                let name = causes.iter().next().map_or("plan", Cause::name);
                let plan = Mark::new(at, What::Instant, PLANS, PLAN, name);
                let plan = plan.note("epoch", epoch).note("rows", rows);
                plan.note_text("causes", &causes.to_string())
            }
            Happening::Preempt {
                blocks_left,
                latency_ns,
            } => {
                let on = self.tenant(args, whose, packets).0.preemptions;
                let mark = of(at, What::Instant, on, (PREEMPT, args, whose));
                mark.note("blocks_left", blocks_left)
                    .note("wait_ns", latency_ns)
            }
            Happening::Resume {
                blocks_left,
                out_ns,
            } => {
                let on = self.tenant(args, whose, packets).0.preemptions;
                let mark = of(at, What::Instant, on, (RESUME, args, whose));
                mark.note("blocks_left", blocks_left).note("out_ns", out_ns)
            }
            Happening::SliceEnd { .. } => return self.add_piece(event, whose, packets),
            Happening::Complete { .. } => return self.add_launch(event, whose, packets),
            Happening::Block { .. } => return self.add_block(event, whose, packets),
            // It is drawn when it ends.
            Happening::SliceStart { .. } => return,
        };
        packets.push(Packet::Event(mark));
    }

    /// Adds a range of a program at a device time.
    pub(super) fn add_range(
        &mut self,
        (range, owner, at): (&Range, &Owner, u64),
        packets: &mut Vec<Packet>,
    ) {
        let args = ProbeArgs {
            tenant: owner.tenant,
            ..ProbeArgs::default()
        };
        let whose = Whose {
            tenant: Some(&owner.name),
            ..Whose::default()
        };
        let above = self.tenant(&args, whose, packets).0.uuid;
        let on = (above, &mut self.last_uuid);
        self.ranges.add((range, owner, at), on, packets);
    }

    /// Begins no more ranges: those that are drawn get their ends, and the rest is left out and counted.
    pub(super) fn close_ranges(&mut self) {
        self.ranges.close();
    }

    /// Returns how much of the ranges was not drawn.
    pub(super) fn ranges_left_out(&self) -> u64 {
        self.ranges.left_out()
    }

    fn add_piece(&mut self, event: &Event, whose: Whose<'_>, packets: &mut Vec<Packet>) {
        let Happening::SliceEnd {
            first_block,
            blocks,
            waited_ns,
            ran_ns,
        } = event.what
        else {
            return;
        };
        let (args, at) = (&event.args, event.args.time_ns);
        let start = at.saturating_sub(ran_ns);
        let open = || Open {
            args: *args,
            launch: of(start, What::Begin, 0, (LAUNCH, args, whose)),
        };
        self.open.entry(args.seq).or_insert_with(open);
        // The end of the oldest one was lost, most likely.
        if self.open.len() > MOST_OPEN {
            self.open.pop_first();
        }
        let (tenant, last_uuid) = self.tenant(args, whose, packets);
        let name = format!("{} pieces", kernel(args, whose));
        let key = bounded(&tenant.pieces, args.key, u64::MAX);
        let lanes = tenant.pieces.entry(key).or_default();
        let lane = lanes.place((start, at), (tenant.uuid, &name), last_uuid, packets);
        let piece = of(start, What::Begin, lane, (PIECE, args, whose))
            .note("first_block", first_block)
            .note("blocks", blocks)
            .note("queue_ns", waited_ns);
        packets.push(Packet::Event(piece));
        packets.push(end_of(lane, at));
    }

    fn add_block(&mut self, event: &Event, whose: Whose<'_>, packets: &mut Vec<Packet>) {
        let Happening::Block {
            sm,
            block,
            ran_ns,
            group,
        } = event.what
        else {
            return;
        };
        let (args, at) = (&event.args, event.args.time_ns);
        let start = at.saturating_sub(ran_ns);
        let (above, lanes_of) = &mut self.sms;
        let above = *above.get_or_insert_with(|| {
            self.last_uuid += 1;
            packets.push(track(self.last_uuid, 0, "SMs"));
            self.last_uuid
        });
        let key = bounded(lanes_of, sm, u64::MAX);
        let name = format!("SM {key}");
        let lanes = lanes_of.entry(key).or_default();
        let lane = lanes.place((start, at), (above, &name), &mut self.last_uuid, packets);
        let drawn = of(start, What::Begin, lane, (BLOCK, args, whose)).note("block", block);
        packets.push(Packet::Event(match group {
            Some(group) => drawn.note("group", group),
            None => drawn,
        }));
        packets.push(end_of(lane, at));
    }

    fn add_launch(&mut self, event: &Event, whose: Whose<'_>, packets: &mut Vec<Packet>) {
        let Happening::Complete {
            submit_to_start_ns,
            submit_to_complete_ns,
            blocks,
            status,
        } = event.what
        else {
            return;
        };
        let (args, at) = (&event.args, event.args.time_ns);
        self.open.remove(&args.seq);
        let submitted = at.saturating_sub(submit_to_complete_ns);
        let start = submitted.saturating_add(submit_to_start_ns).min(at);
        let (tenant, last_uuid) = self.tenant(args, whose, packets);
        let (on, above) = (tenant.submissions, (tenant.uuid, "launches"));
        let lane = tenant
            .launches
            .place((start, at), above, last_uuid, packets);
        let mut submission = of(submitted, What::Instant, on, (SUBMISSION, args, whose));
        submission.flow = args.seq;
        let mut launch = of(start, What::Begin, lane, (LAUNCH, args, whose))
            .note("blocks", blocks)
            .note("queue_ns", submit_to_start_ns);
        launch.flow_end = args.seq;
        if let Some(why) = failure(status) {
            launch = launch.note_text("failure", &why);
        }
        packets.push(Packet::Event(submission));
        packets.push(Packet::Event(launch));
        packets.push(end_of(lane, at));
    }

    /// Adds the launches that have not ended, and how the recording ended, after the last event.
    pub(super) fn end(
        &mut self,
        (last_ns, events, lost): (u64, u64, u64),
        packets: &mut Vec<Packet>,
    ) {
        for Open { args, mut launch } in std::mem::take(&mut self.open).into_values() {
            let start = launch.time_ns;
            let (tenant, last_uuid) = self.tenant(&args, Whose::default(), packets);
            let above = (tenant.uuid, "launches");
            launch.track = tenant
                .launches
                .place((start, u64::MAX), above, last_uuid, packets);
            packets.push(Packet::Event(launch.note_text("state", "no end seen")));
        }
        self.ranges.finish(&mut self.last_uuid, packets);
        let end = Mark::new(last_ns, What::Instant, PLANS, END, "end of the recording");
        packets.push(Packet::Event(end.note("events", events).note("lost", lost)));
    }

    /// Returns the tracks of a tenant, which are made with its first event, and the number of the last track.
    fn tenant(
        &mut self,
        args: &ProbeArgs,
        whose: Whose<'_>,
        packets: &mut Vec<Packet>,
    ) -> (&mut Tenant, &mut u64) {
        let last = &mut self.last_uuid;
        let key = bounded(&self.tenants, args.tenant, u32::MAX);
        let tenant = self.tenants.entry(key).or_insert_with(|| {
            let uuid = *last + 1;
            *last += 3;
            let number = format!("tenant {key}");
            packets.push(track(uuid, 0, whose.tenant.unwrap_or(&number)));
            packets.push(track(uuid + 1, uuid, "submissions"));
            packets.push(track(uuid + 2, uuid, "preemptions"));
            Tenant {
                uuid,
                submissions: uuid + 1,
                preemptions: uuid + 2,
                launches: Lanes::default(),
                pieces: HashMap::new(),
            }
        });
        (tenant, last)
    }
}

/// Returns a key that is known or has room, else the one for all others.
fn bounded<K: Copy + Eq + Hash, V>(known: &HashMap<K, V>, key: K, others: K) -> K {
    match known.len() < MOST || known.contains_key(&key) {
        true => key,
        false => others,
    }
}

pub(super) fn track(uuid: u64, parent: u64, name: &str) -> Packet {
    Packet::Track {
        uuid,
        parent,
        name: name.to_owned(),
    }
}

fn end_of(lane: u64, at: u64) -> Packet {
    Packet::Event(Mark::new(at, What::End, lane, "", ""))
}

/// Returns an event of a launch, which is named after its kernel.
fn of(
    at: u64,
    what: What,
    track: u64,
    (category, args, whose): (&str, &ProbeArgs, Whose<'_>),
) -> Mark {
    let tenant = whose.tenant.unwrap_or("?");
    let mark = Mark::new(at, what, track, category, &kernel(args, whose))
        .note_text("tenant", tenant)
        .note("seq", args.seq);
    match whose.pid.and_then(|pid| u64::try_from(pid).ok()) {
        Some(pid) => mark.note("pid", pid),
        None => mark,
    }
}

/// Returns the name of an event's kernel, or a part of its key where nobody knows it.
fn kernel(args: &ProbeArgs, whose: Whose<'_>) -> String {
    let unknown = || format!("kernel #{:016x}", args.key);
    whose.kernel.map_or_else(unknown, ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{LAUNCH, MOST, Timeline};
    use crate::commands::trace::directory::Whose;
    use crate::perfetto::packet::{Mark, Packet};
    use gridmux_bpf::{Causes, Event, Happening, ProbeArgs};
    use std::collections::HashMap;

    const WHOSE: Whose<'_> = Whose {
        tenant: Some("first"),
        pid: Some(3),
        kernel: Some("k"),
    };

    fn complete(seq: u64, [submitted, start, end]: [u64; 3]) -> Event {
        Event {
            wall_ns: 0,
            args: ProbeArgs {
                seq,
                time_ns: end,
                key: 5,
                ..ProbeArgs::default()
            },
            what: Happening::Complete {
                submit_to_start_ns: start - submitted,
                submit_to_complete_ns: end - submitted,
                blocks: 1,
                status: 0,
            },
        }
    }

    /// Returns the slices of launches by their track, as start and end.
    fn slices(packets: &[Packet]) -> HashMap<u64, Vec<(u64, u64)>> {
        let mut slices: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
        let events = packets.iter().filter_map(|packet| match packet {
            Packet::Event(event) => Some(event),
            Packet::Track { .. } => None,
        });
        for event in events {
            let on = slices.entry(event.track).or_default();
            match event.mark {
                Mark::Begin if event.category == LAUNCH => {
                    assert_eq!(event.name, "k");
                    on.push((event.time_ns, u64::MAX));
                }
                Mark::End => {
                    if let Some(launch) = on.last_mut() {
                        launch.1 = event.time_ns;
                    }
                }
                Mark::Begin | Mark::Instant => {}
            }
        }
        slices.retain(|_, slices| !slices.is_empty());
        slices
    }

    #[test]
    fn slices_that_overlap_go_to_tracks_of_one_name() {
        let (mut timeline, mut packets) = Timeline::begin();
        for event in [
            complete(1, [0, 10, 20]),
            complete(2, [5, 15, 30]),
            complete(3, [5, 20, 40]),
            complete(4, [5, 30, 50]),
        ] {
            timeline.add(&event, WHOSE, &mut packets);
        }
        let mut on: Vec<_> = slices(&packets).into_values().collect();
        on.sort();
        assert_eq!(on, [vec![(10, 20), (20, 40)], vec![(15, 30), (30, 50)]]);
        let names = packets.iter().filter(|packet| {
            matches!(packet, Packet::Track { name, parent, .. } if name == "launches" && *parent == 2)
        });
        assert_eq!(names.count(), 2);
        let flows: Vec<_> = packets
            .iter()
            .filter_map(|packet| match packet {
                Packet::Event(event) if event.flow + event.flow_end > 0 => {
                    Some((event.flow, event.flow_end, event.time_ns))
                }
                _ => None,
            })
            .collect();
        assert_eq!(flows[..2], [(1, 0, 0), (0, 1, 10)]);
    }

    fn block(sm: u64, (start, end): (u64, u64)) -> Event {
        let mut event = complete(1, [0, 0, end]);
        event.what = Happening::Block {
            sm,
            block: 7,
            ran_ns: end - start,
            group: Some(2),
        };
        event
    }

    #[test]
    fn blocks_stand_on_tracks_of_their_sms() {
        let (mut timeline, mut packets) = Timeline::begin();
        for (sm, span) in [(3, (0, 10)), (3, (5, 12)), (3, (10, 20)), (4, (0, 30))] {
            timeline.add(&block(sm, span), WHOSE, &mut packets);
        }
        let mut tracks: HashMap<u64, &str> = HashMap::new();
        let mut on: Vec<(&str, u64, u64)> = Vec::new();
        for packet in &packets {
            match packet {
                Packet::Track { uuid, name, .. } => _ = tracks.insert(*uuid, name),
                Packet::Event(event) if event.mark == Mark::Begin => {
                    assert_eq!(
                        (event.name.as_str(), event.category.as_str()),
                        ("k", super::BLOCK)
                    );
                    on.push((tracks[&event.track], event.track, event.time_ns));
                }
                Packet::Event(_) => {}
            }
        }
        let names: Vec<&str> = on.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["SM 3", "SM 3", "SM 3", "SM 4"]);
        assert_eq!(on[0].1, on[2].1, "the first lane is free again");
        assert_ne!(on[0].1, on[1].1, "they overlap");
    }

    #[test]
    fn a_plan_is_named_after_its_principal_cause() {
        let (mut timeline, mut packets) = Timeline::begin();
        let mut event = complete(0, [0, 0, 9]);
        for (bits, due) in [(1 << 5 | 1 << 9, "arrival"), (0, "plan")] {
            event.what = Happening::Plan {
                epoch: 1,
                rows: 2,
                causes: Causes::from_bits(bits),
            };
            timeline.add(&event, Whose::default(), &mut packets);
            let Some(Packet::Event(plan)) = packets.last() else {
                panic!("it is an event");
            };
            assert_eq!(plan.name, due);
        }
    }

    #[test]
    fn numbers_that_make_no_sense_make_a_timeline_all_the_same() {
        let (mut timeline, mut packets) = Timeline::begin();
        let mut event = complete(1, [0, 0, 0]);
        event.what = Happening::Complete {
            submit_to_start_ns: u64::MAX,
            submit_to_complete_ns: 3,
            blocks: u64::MAX,
            status: u64::MAX,
        };
        timeline.add(&event, Whose::default(), &mut packets);
        event.what = Happening::SliceEnd {
            first_block: u64::MAX,
            blocks: u64::MAX,
            waited_ns: u64::MAX,
            ran_ns: u64::MAX,
        };
        timeline.add(&event, Whose::default(), &mut packets);
        let bytes: Vec<u8> = packets.iter().flat_map(Packet::encode).collect();
        assert_eq!(Packet::all_of(&bytes).count(), packets.len());
        assert!(packets.iter().any(
            |packet| matches!(packet, Packet::Track { name, .. } if name == "kernel #0000000000000005 pieces")
        ));
    }

    #[test]
    fn a_launch_that_has_not_ended_has_no_end() {
        let (mut timeline, mut packets) = Timeline::begin();
        let (first_block, blocks) = (0, 4);
        for seq in [1, 2] {
            let mut event = complete(seq, [0, 0, 10]);
            event.what = Happening::SliceEnd {
                first_block,
                blocks,
                waited_ns: 0,
                ran_ns: 5,
            };
            timeline.add(&event, WHOSE, &mut packets);
        }
        timeline.add(&complete(1, [0, 10, 30]), WHOSE, &mut packets);
        timeline.end((30, 3, 0), &mut packets);
        let mut on: Vec<_> = slices(&packets).into_values().collect();
        on.sort();
        assert_eq!(on, [vec![(5, u64::MAX)], vec![(10, 30)]]);
    }

    #[test]
    fn tracks_are_bounded() {
        let (mut timeline, mut packets) = Timeline::begin();
        for number in 0..3 * MOST as u64 {
            let mut event = complete(number, [0, 1, u64::MAX]);
            timeline.add(&event, WHOSE, &mut packets);
            event.args.tenant = u32::try_from(number).unwrap();
            timeline.add(&event, WHOSE, &mut packets);
            timeline.add(&block(number, (0, u64::MAX)), WHOSE, &mut packets);
        }
        let tracks = packets
            .iter()
            .filter(|packet| matches!(packet, Packet::Track { .. }));
        assert!(tracks.count() < 9 * MOST);
        assert_eq!(timeline.tenants.len(), MOST + 1);
    }
}
