//! `gridmux trace record`: everything that happens, as a file that Perfetto opens.
//!
//! Rule: whatever ends it, also a disk that is full, the file holds whole packets alone.

use super::OfTenant;
use super::clients::Owner;
use super::device_time::DeviceTime;
use super::directory::Whose;
use super::session::{End, Limits, Session, Sink, WithRanges};
use super::timeline::Timeline;
use crate::failure::Failure;
use crate::files;
use crate::output::{Output, note};
use crate::perfetto::packet::{Packet, whole};
use crate::units;
use anyhow::Context;
use clap::{Args, ValueHint};
use gridmux_bpf::{Event, Happening, Probe, Range};
use serde_json::json;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Bytes from which on packets are written.
const ENOUGH: usize = 64 << 10;

/// Most ranges that wait for the device to do something.
const MOST_WAITING: usize = 1 << 16;

/// Bytes at which a recording ends: what `gridmux report` reads of one, with room for the last packets, which are those
/// of all that waits and all that has not ended.
const MOST_BYTES: u64 = files::MOST_DATA - (64 << 20);

/// Bytes of ranges from which on none is begun, so that no program fills the file.
const MOST_RANGE_BYTES: u64 = MOST_BYTES / 4;

/// Records a timeline.
#[derive(Debug, Args)]
pub(crate) struct Record {
    /// The file; open it at https://ui.perfetto.dev, or have `gridmux report` sum it up
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    perfetto: PathBuf,
    /// Also every block, on a track for each SM
    #[arg(long)]
    blocks: bool,
    #[command(flatten)]
    of: OfTenant,
}

/// The file of a recording.
struct Recording {
    timeline: Timeline,
    /// What came of the last event, kept for its room.
    packets: Vec<Packet>,
    file: TraceFile,
    last_ns: u64,
    time: DeviceTime,
    /// Ranges whose device time is not known yet.
    ranges: VecDeque<(Range, Owner)>,
    /// Ranges that came.
    came: u64,
    /// Those of them that found no room while the device had done nothing.
    dropped: u64,
    /// Bytes of the file that are of ranges, and from how many on none is begun.
    range_bytes: u64,
    most_range_bytes: u64,
}

/// A file of packets.
struct TraceFile {
    path: PathBuf,
    file: File,
    /// Bytes of the file, all of them of whole packets.
    written: u64,
    waiting: Vec<u8>,
}

impl Record {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let all = self.of.all;
        files::check_writable(&self.perfetto)?;
        let mut probes = vec![
            Probe::Plan,
            Probe::SliceEnd,
            Probe::Preempt,
            Probe::Resume,
            Probe::Complete,
        ];
        if self.blocks {
            probes.push(Probe::Block);
        }
        let tenant = self.of.tenant.as_deref();
        let probes = (&probes[..], WithRanges::WherePossible);
        let mut session = Session::begin(all.service, probes, tenant)?;
        let mut recording = Recording::begin(&self.perfetto, session.passes)?;
        session.announce(if self.blocks {
            "everything and blocks"
        } else {
            "everything"
        });
        let limits = Limits {
            count: all.count,
            duration: all.duration,
        };
        let end = session.run(limits, &mut recording)?;
        recording.place_rest();
        let ranges = recording.came;
        let (bytes, left_out) = recording.end(&end)?;
        end.note();
        if left_out > 0 {
            let ranges = units::counted(ranges, "hit");
            note(&format!(
                "{left_out} of {ranges} of programs' ranges left out: `gridmux trace record --help` says which"
            ));
        }
        let file = self.perfetto.display().to_string();
        note(&format!("{file}: open it at https://ui.perfetto.dev"));
        let said = json!({
            "file": file, "bytes": bytes, "events": end.events, "lost": end.lost, "ranges": ranges,
            "ranges_left_out": left_out, "of_no_client": end.of_no_client, "ended": end.ended,
        });
        out.line(&said)
    }
}

impl Recording {
    fn begin(path: &Path, passes: bool) -> Result<Self, Failure> {
        let (timeline, packets) = Timeline::begin();
        let mut file = TraceFile::make(path)?;
        packets.iter().for_each(|packet| file.add(packet));
        Ok(Self {
            timeline,
            packets: Vec::new(),
            file,
            last_ns: 0,
            time: DeviceTime::new(passes),
            ranges: VecDeque::new(),
            came: 0,
            dropped: 0,
            range_bytes: 0,
            most_range_bytes: MOST_RANGE_BYTES,
        })
    }

    /// Adds the ranges whose device time is known by now. Where too many wait the oldest stands at the last event, or
    /// is left out where there was none.
    fn place(&mut self) {
        while let Some((range, _)) = self.ranges.front() {
            let is_too_much = self.ranges.len() > MOST_WAITING;
            match self.time.at(range.wall_ns) {
                Some(at) => self.draw_first(at),
                None if !is_too_much => return,
                None => match self.time.last() {
                    Some(at) => self.draw_first(at),
                    None => {
                        self.ranges.pop_front();
                        self.dropped += 1;
                    }
                },
            }
        }
    }

    /// Adds all other ranges, behind the last event.
    fn place_rest(&mut self) {
        while let Some((range, _)) = self.ranges.front() {
            let at = self.time.at_the_end(range.wall_ns);
            self.draw_first(at);
        }
    }

    fn draw_first(&mut self, at: u64) {
        let Some((range, owner)) = self.ranges.pop_front() else {
            return;
        };
        self.last_ns = self.last_ns.max(at);
        let drawn = (&range, &owner, at);
        let before = self.file.length();
        self.timeline.add_range(drawn, &mut self.packets);
        self.write();
        self.range_bytes += self.file.length() - before;
        if self.range_bytes > self.most_range_bytes {
            self.timeline.close_ranges();
        }
    }

    fn write(&mut self) {
        for packet in self.packets.drain(..) {
            self.file.add(&packet);
        }
    }

    /// Ends the file; returns its length, and how many ranges were left out.
    fn end(mut self, end: &End) -> Result<(u64, u64), Failure> {
        let ended = (self.last_ns, end.events, end.lost);
        self.timeline.end(ended, &mut self.packets);
        self.packets.iter().for_each(|packet| self.file.add(packet));
        self.file.flush()?;
        let left_out = self.dropped + self.timeline.ranges_left_out();
        Ok((self.file.written, left_out))
    }
}

impl Sink for Recording {
    fn take(&mut self, event: &Event, whose: Whose<'_>) -> Result<bool, Failure> {
        self.last_ns = self.last_ns.max(event.args.time_ns);
        // A block may be told long after it ended.
        if !matches!(event.what, Happening::Block { .. }) {
            let took_ns = match event.what {
                Happening::SliceEnd {
                    waited_ns, ran_ns, ..
                } => waited_ns.saturating_add(ran_ns),
                Happening::Complete {
                    submit_to_complete_ns,
                    ..
                } => submit_to_complete_ns,
                _ => 0,
            };
            self.time.add(event.wall_ns, event.args.time_ns, took_ns);
        }
        self.place();
        self.timeline.add(event, whose, &mut self.packets);
        self.write();
        Ok(self.file.waiting.len() >= ENOUGH)
    }

    fn take_range(&mut self, range: Range, owner: Owner) -> Result<bool, Failure> {
        self.came += 1;
        self.ranges.push_back((range, owner));
        self.place();
        Ok(self.file.waiting.len() >= ENOUGH)
    }

    fn counts_ranges(&self) -> bool {
        false
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.file.flush()
    }

    fn waiting(&self) -> u64 {
        0
    }

    fn is_full(&self) -> bool {
        self.file.length() > MOST_BYTES
    }

    fn is_stdout(&self) -> bool {
        false
    }
}

impl TraceFile {
    fn make(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Ok(Self {
            path: path.to_owned(),
            file,
            written: 0,
            waiting: Vec::new(),
        })
    }

    /// Returns its length, with what is not written yet.
    fn length(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    fn add(&mut self, packet: &Packet) {
        self.waiting.extend(packet.encode());
    }

    /// Writes what waits; where that fails, the file is cut behind the last whole packet.
    fn flush(&mut self) -> Result<(), Failure> {
        let mut done = 0;
        while done < self.waiting.len() {
            match self.file.write(&self.waiting[done..]) {
                Ok(more) if more > 0 => done += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) => return Err(self.cut(done, ErrorKind::WriteZero.into())),
                Err(error) => return Err(self.cut(done, error)),
            }
        }
        self.written += done as u64;
        self.waiting.clear();
        Ok(())
    }

    fn cut(&mut self, done: usize, error: std::io::Error) -> Failure {
        self.written += whole(&self.waiting[..done]) as u64;
        let (path, kept) = (self.path.display(), self.written);
        let is_full = matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        );
        let hint = match self.file.set_len(self.written) {
            Ok(()) => format!("its first {kept} bytes are a timeline of what came until then"),
            Err(error) => format!("behind its first {kept} bytes it makes no sense: {error}"),
        };
        let failure = Failure::from(error).of(&format!("writing {path}"));
        match is_full {
            true => failure.hint(format!("make room there or name a file elsewhere; {hint}")),
            false => failure.hint(hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_WAITING, Recording, TraceFile};
    use crate::commands::trace::clients::Owner;
    use crate::commands::trace::session::{End, Sink as _};
    use crate::perfetto::packet::{Event, Mark, Packet, whole};
    use gridmux_bpf::{Range, RangeProbe};

    fn packet(at: u64) -> Packet {
        Packet::Event(Event::new(at, Mark::Instant, 1, "c", "name"))
    }

    #[test]
    fn what_cannot_be_written_is_cut_behind_the_last_whole_packet() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = TraceFile::make(&folder.path().join("t")).unwrap();
        file.add(&packet(1));
        file.flush().unwrap();
        let first = file.written;
        (2..5).for_each(|at| file.add(&packet(at)));
        let done = file.waiting.len() - 3;
        std::io::Write::write_all(&mut file.file, &file.waiting[..done]).unwrap();
        let failure = file.cut(done, std::io::ErrorKind::StorageFull.into());
        let text = failure.line();
        assert!(
            text.contains("writing ") && text.contains("make room"),
            "{text}"
        );
        let bytes = std::fs::read(&file.path).unwrap();
        assert_eq!(whole(&bytes), bytes.len());
        assert_eq!(Packet::all_of(&bytes).count(), 3);
        assert!(bytes.len() as u64 > first);
    }

    #[test]
    fn a_full_disk_is_named() {
        let mut recording = Recording::begin(std::path::Path::new("/dev/full"), true).unwrap();
        let failure = recording.flush().unwrap_err().line();
        assert!(
            failure.contains("writing /dev/full: No space left"),
            "{failure}"
        );
    }

    /// Returns a range of its own number at a machine's time.
    fn range(what: RangeProbe, wall_ns: u64) -> (Range, Owner) {
        let range = Range {
            wall_ns,
            pid: 7,
            tid: 8,
            what,
            domain: 0,
            range: wall_ns,
            name: "flood".into(),
            domain_name: String::new(),
        };
        let owner = Owner {
            tenant: 1,
            name: "first".into(),
        };
        (range, owner)
    }

    fn add(recording: &mut Recording, what: RangeProbe, wall_ns: u64) {
        let (range, owner) = range(what, wall_ns);
        recording.take_range(range, owner).unwrap();
    }

    #[test]
    fn a_flood_of_ranges_takes_its_part_of_the_file_and_what_was_drawn_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = Recording::begin(&folder.path().join("t"), true).unwrap();
        recording.most_range_bytes = 10_000;
        recording.time.add(1_000_000, 1_000_000, 0);
        add(&mut recording, RangeProbe::Push, 1);
        for at in 2..5_000 {
            add(&mut recording, RangeProbe::Mark, at);
        }
        add(&mut recording, RangeProbe::Pop, 5_000);
        assert!(recording.file.length() < 11_000 && !recording.is_full());
        let drawn = Packet::all_of(&recording.file.waiting).filter_map(|packet| match packet {
            Packet::Event(event) => Some(event.mark),
            Packet::Track { .. } => None,
        });
        let drawn: Vec<Mark> = drawn.collect();
        assert_eq!(drawn.last(), Some(&Mark::End));
        let (_, left_out) = recording.end(&End::begin(1)).unwrap();
        assert_eq!(left_out + drawn.len() as u64, 5_000);
    }

    #[test]
    fn what_waits_for_the_device_is_bounded_and_changes_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = Recording::begin(&folder.path().join("t"), false).unwrap();
        let most = MOST_WAITING as u64;
        (0..most + 3).for_each(|at| add(&mut recording, RangeProbe::Mark, at));
        assert_eq!(
            (recording.dropped, recording.ranges.len() as u64),
            (3, most)
        );
        assert_eq!(recording.time.last(), None);
        recording.time.add(most + 3, 70, 20);
        recording.place();
        assert_eq!((recording.ranges.len(), recording.last_ns), (0, 50));
        (0..=most).for_each(|at| add(&mut recording, RangeProbe::Mark, most + 10 + at));
        assert_eq!(
            (recording.dropped, recording.ranges.len() as u64),
            (3, most)
        );
        assert_eq!(recording.last_ns, 70, "the oldest stands at the last event");
    }

    #[test]
    fn what_finds_no_track_at_the_end_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = Recording::begin(&folder.path().join("t"), true).unwrap();
        (0..2_000).for_each(|at| add(&mut recording, RangeProbe::Start, at));
        recording.place_rest();
        assert_eq!(recording.timeline.ranges_left_out(), 0);
        let (_, left_out) = recording.end(&End::begin(1)).unwrap();
        assert_eq!(left_out, 2_000 - 1_024);
    }
}
