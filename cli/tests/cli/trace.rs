//! A running service is watched and recorded while tenants use it.
//!
//! Where this machine permits no eBPF, each test prints `SKIPPED: reason` and passes.

use crate::command::running::{Service, until};
use crate::command::{PROGRAM, gridmux, json_of, typed, words};
use gridmux_bpf::Cause;
use gridmux_testkit::message_fields;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// SMs of the device of a [`Service`].
const SMS: u64 = 4;

/// A command that watches; it is killed if a test gives up.
struct Watching {
    child: Child,
    /// None once its reader is gone.
    stdout: Option<BufReader<ChildStdout>>,
    stderr: BufReader<ChildStderr>,
}

impl Watching {
    /// Starts `gridmux trace` on a service and waits until it is attached; says why where it cannot be.
    fn start(service: &Service, line: &str) -> Option<Self> {
        let mut command = Command::new(PROGRAM);
        command.args(words(line)).arg("--run-dir");
        let child = command
            .arg(&service.run_dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("the command starts");
        let stdout = child.stdout.take().map(BufReader::new);
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut watching = Self {
            child,
            stdout,
            stderr,
        };
        let mut said = String::new();
        // A recording may say first that it has no ranges of programs.
        while watching.stderr.read_line(&mut said).unwrap() > 0 {
            if said.lines().any(|line| line.starts_with("tracing ")) {
                return Some(watching);
            }
        }
        said.push_str(&watching.rest_of_stdout());
        let cannot = ["eBPF needs", "without its eBPF programs"];
        assert!(cannot.iter().any(|why| said.contains(why)), "{said}");
        println!("SKIPPED: {said}");
        None
    }

    fn rest_of_stdout(&mut self) -> String {
        let mut text = String::new();
        let stdout = self.stdout.as_mut().expect("its reader is there");
        stdout.read_to_string(&mut text).unwrap();
        text
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Returns its lines as JSON, and what it said on stderr, when it has ended well.
    fn end(mut self) -> (Vec<Value>, String) {
        let (out, mut err) = (self.rest_of_stdout(), String::new());
        self.stderr.read_to_string(&mut err).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{out}{err}");
        let lines = out.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
        });
        (lines.collect(), err)
    }

    /// Waits until it has passed everything on that came so far, asks it to end, and returns what it said.
    fn stop(self) -> (Vec<Value>, String) {
        self.signal(Signal::SIGINT);
        self.end()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn workload(service: &Service, line: &str) -> Child {
    let socket = service.socket();
    let line = format!("-j workload run --socket {socket} {line}");
    let command = Command::new(PROGRAM)
        .args(words(&line))
        .stdout(Stdio::null())
        .spawn();
    command.expect("the command starts")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the lines of a tenant.
fn of<'a>(lines: &'a [Value], tenant: &'a str) -> impl Iterator<Item = &'a Value> {
    lines
        .iter()
        .filter(move |line| text(&line["tenant"]) == tenant)
}

/// Returns how many slices there are of a category, each of which ends before the next one of its track begins.
fn slices(file: &[u8], category: &str) -> usize {
    let mut tracks: HashMap<u64, Vec<(u64, u64, bool)>> = HashMap::new();
    for (_, packet, _) in message_fields(file) {
        let packet = message_fields(packet);
        let at = |wanted: u64| packet.iter().find(|(field, ..)| *field == wanted);
        let Some((_, event, _)) = at(11) else {
            continue;
        };
        let time = at(8).expect("an event has a time").2;
        let event = message_fields(event);
        let of = |wanted: u64| event.iter().find(|(field, ..)| *field == wanted);
        let kind = of(9).expect("an event has a type").2;
        let is_asked = of(22).is_some_and(|(_, name, _)| *name == category.as_bytes());
        let track = of(11).expect("an event has a track").2;
        tracks
            .entry(track)
            .or_default()
            .push((time, kind, is_asked));
    }
    let mut count = 0;
    for events in tracks.into_values() {
        let marks: Vec<_> = events.iter().filter(|(_, kind, _)| *kind < 3).collect();
        assert!(marks.is_sorted_by_key(|(time, ..)| *time), "{marks:?}");
        for pair in marks.chunks(2) {
            assert_eq!([pair[0].1, pair[1].1], [1, 2], "{marks:?}");
            count += usize::from(pair[0].2);
        }
    }
    count
}

/// Has Perfetto's own program count the launches of a file, where there is that program.
fn counted_by_perfetto(file: &Path) -> Option<usize> {
    let query = file.with_extension("sql");
    std::fs::write(
        &query,
        "select count(*) from slice where category = 'launch';",
    )
    .unwrap();
    let output = Command::new("trace_processor_shell")
        .arg("-q")
        .args([&query, file])
        .output();
    let Ok(output) = output else {
        println!(
            "SKIPPED: no trace_processor_shell on PATH; the file was decoded by this test alone"
        );
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = text
        .lines()
        .last()
        .and_then(|line| line.trim().parse().ok());
    Some(count.unwrap_or_else(|| panic!("{text}, {}", String::from_utf8_lossy(&output.stderr))))
}

/// Checks that each launch names its kernel and the process that asked for it.
fn check_names(launches: &[Value], pids: [u64; 2]) {
    for line in launches {
        let (kernel, pid) = match text(&line["tenant"]) {
            "second" => ("matmul", pids[0]),
            _ => ("reduction", pids[1]),
        };
        assert_eq!(
            (text(&line["kernel"]), number(&line["pid"])),
            (kernel, pid),
            "{line}"
        );
        assert_eq!(line["failure"], Value::Null, "{line}");
    }
}

/// Checks that the report of a recording says what the lines do that were watched meanwhile.
fn check_report(file: &Path, launches: &[Value], preemptions: &[Value]) {
    let preempted = |tenant: &str| {
        let of =
            |line: &&Value| text(&line["event"]) == "preempt" && text(&line["tenant"]) == tenant;
        preemptions.iter().filter(of).count() as u64
    };
    let report = json_of(["-j".as_ref(), "report".as_ref(), file.as_os_str()]);
    assert_eq!(report["lost"], 0);
    let kernels = report["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 2, "{report}");
    for kernel in kernels {
        let tenant = text(&kernel["tenant"]);
        let sum = |key: &str| {
            of(launches, tenant)
                .map(|line| number(&line[key]))
                .sum::<u64>()
        };
        let runs = of(launches, tenant).map(|line| number(&line["run_ns"]));
        assert_eq!(
            number(&kernel["instances"]),
            of(launches, tenant).count() as u64,
            "{kernel}"
        );
        assert_eq!(number(&kernel["total_ns"]), sum("run_ns"), "{kernel}");
        assert_eq!(number(&kernel["max_ns"]), runs.max().unwrap(), "{kernel}");
        let queue = kernel["queue_avg_ns"].as_f64().unwrap() * of(launches, tenant).count() as f64;
        assert!((queue - sum("queue_ns") as f64).abs() < 1.0, "{kernel}");
        assert_eq!(number(&kernel["preempted"]), preempted(tenant), "{kernel}");
    }
    let shown = gridmux(["report".as_ref(), file.as_os_str()])
        .succeeded()
        .stdout;
    assert!(
        shown.contains("matmul") && shown.contains("QUEUE_AVG"),
        "{shown}"
    );
}

/// Checks that each block of each launch ran once, on an SM that there is, while its launch did; returns how many did.
fn check_blocks(blocks: &[Value], launches: &[Value]) -> usize {
    let mut of_launch: HashMap<u64, Vec<&Value>> = HashMap::new();
    for block in blocks {
        assert!(number(&block["sm"]) < SMS, "{block}");
        assert_eq!(number(&block["end_ns"]), number(&block["device_ns"]));
        of_launch
            .entry(number(&block["seq"]))
            .or_default()
            .push(block);
    }
    for launch in launches {
        let of = of_launch
            .remove(&number(&launch["seq"]))
            .expect("its blocks");
        let mut numbers: Vec<u64> = of.iter().map(|block| number(&block["block"])).collect();
        numbers.sort_unstable();
        assert!(
            numbers.into_iter().eq(0..number(&launch["blocks"])),
            "{launch}"
        );
        let end = number(&launch["device_ns"]);
        let ran = end - number(&launch["run_ns"])..=end;
        for block in of {
            let times = [&block["start_ns"], &block["end_ns"]].map(number);
            assert!(
                times.iter().all(|time| ran.contains(time)),
                "{block} of {launch}"
            );
            assert_eq!(text(&block["tenant"]), text(&launch["tenant"]));
        }
    }
    assert!(of_launch.is_empty(), "blocks of no launch");
    let sms: HashSet<u64> = blocks.iter().map(|block| number(&block["sm"])).collect();
    assert_eq!(sms.len() as u64, SMS, "every SM had some");
    blocks.len()
}

/// Checks that each plan says why it was made.
fn check_causes(plans: &[Value]) {
    let causes = |plan: &Value| -> Vec<String> {
        let causes = plan["causes"].as_array().expect("causes").iter();
        causes.map(|cause| text(cause).to_owned()).collect()
    };
    assert!(
        plans.iter().all(|plan| !causes(plan).is_empty()),
        "{plans:?}"
    );
    let all: HashSet<String> = plans.iter().flat_map(causes).collect();
    let known: HashSet<String> = Cause::ALL.map(|cause| cause.name().to_owned()).into();
    assert!(all.is_subset(&known), "{all:?}");
    // Which others there are depends on what the policy's thread hears of together.
    assert!(all.contains("arrival"), "{all:?}");
}

#[test]
fn two_tenants_are_watched_recorded_and_summed_up_alike() {
    let service = Service::start("trace-two");
    let file = service.run_dir.join("two.pftrace");
    let record = format!("-j trace record --blocks --perfetto {}", file.display());
    let Some(record) = Watching::start(&service, &record) else {
        return;
    };
    let watch = |line: &str| Watching::start(&service, line).expect("the first one could");
    let [blocks_of_all, plans] = ["-j trace blocks", "-j trace plans"].map(watch);
    let launches = watch("-j trace launches");
    let first = watch("-j trace launches -t first");
    let preemptions = watch("-j trace preemptions");
    let slices_of_all = watch("-j trace slices");
    let mut long = workload(
        &service,
        "matmul --tenant second --size small --launches 12 --streams 3",
    );
    let mut short = workload(
        &service,
        "reduction --tenant first --size tiny --launches 60",
    );
    let pids = [&long, &short].map(|child| u64::from(child.id()));
    assert!(long.wait().unwrap().success() && short.wait().unwrap().success());

    let (launches, said) = launches.stop();
    assert!(said.contains("72 events, none lost"), "{said}");
    let (last, launches) = launches.split_last().unwrap();
    assert_eq!(
        last,
        &serde_json::json!({ "events": 72, "lost": 0, "unread": 0, "ended": "signal" })
    );
    check_names(launches, pids);
    let (mut lines, _) = first.stop();
    lines.pop();
    assert!(lines.iter().all(|line| text(&line["tenant"]) == "first"));
    assert_eq!(lines.len(), 60);
    let (preemptions, _) = preemptions.stop();
    let gave_way = preemptions
        .iter()
        .filter(|line| text(&line["event"]) == "preempt");
    assert!(
        gave_way.count() > 0,
        "the short launches go above the long ones"
    );
    let (pieces, _) = slices_of_all.stop();
    let ended = pieces.iter().filter(|line| text(&line["event"]) == "end");
    let blocks = |lines: &mut dyn Iterator<Item = &Value>| -> u64 {
        lines.map(|line| number(&line["blocks"])).sum()
    };
    let pieces: Vec<&Value> = ended.collect();
    assert_eq!(
        blocks(&mut pieces.iter().copied()),
        blocks(&mut launches.iter())
    );

    let (mut lines, _) = plans.stop();
    lines.pop();
    check_causes(&lines);
    let (mut lines, said) = blocks_of_all.stop();
    lines.pop();
    println!("blocks: {said}");
    let blocks = check_blocks(&lines, launches);

    let (recorded, _) = record.stop();
    assert_eq!(recorded[0]["lost"], 0, "{recorded:?}");
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(slices(&bytes, "launch"), 72);
    assert_eq!(slices(&bytes, "piece"), pieces.len());
    assert_eq!(slices(&bytes, "block"), blocks);
    if let Some(counted) = counted_by_perfetto(&file) {
        assert_eq!(counted, 72);
    }
    check_report(&file, launches, &preemptions);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn watching_ends_when_it_is_told_to_and_when_there_is_nothing_left() {
    let service = Service::start("trace-ends");
    let Some(counted) = Watching::start(&service, "-j trace launches --count 3") else {
        return;
    };
    let watch = |line: &str| Watching::start(&service, line).expect("the first one could");
    let timed = watch("-j trace plans --duration 0.2");
    let (lines, said) = timed.end();
    assert_eq!(lines.last().unwrap()["ended"], "duration", "{said}");
    let mut piped = watch("trace launches");
    let told = watch("-j trace slices");
    let until_the_end = watch("-j trace launches");
    assert!(
        workload(&service, "vecadd --tenant first --size tiny --launches 5")
            .wait()
            .unwrap()
            .success()
    );
    let (lines, said) = counted.end();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[3]["ended"], "count", "{said}");
    let mut heading = String::new();
    let lines = piped.stdout.as_mut().expect("its reader is there");
    lines.read_line(&mut heading).unwrap();
    assert!(heading.starts_with("TIME         TENANT "), "{heading}");
    told.signal(Signal::SIGTERM);
    assert_eq!(told.end().0.last().unwrap()["ended"], "signal");

    // Its reader goes, as `head` does; no event comes any more.
    piped.stdout = None;
    let code = until("the end of who has no reader", || {
        piped.child.try_wait().unwrap()
    });
    assert_eq!(code.code(), Some(0));

    let host = number(&service.ask(&["device", "show"])["host_pid"]);
    kill(Pid::from_raw(i32::try_from(host).unwrap()), Signal::SIGKILL).unwrap();
    let (lines, said) = until_the_end.end();
    assert_eq!(lines.last().unwrap()["ended"], "host_ended", "{said}");
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(
        said.contains(&format!("process {host}, has ended")),
        "{said}"
    );
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_reader_that_does_not_read_loses_events_and_says_how_many() {
    let service = Service::start_with("trace-slow", &["--functional"]);
    let Some(slow) = Watching::start(&service, "-j trace slices") else {
        return;
    };
    let mut stuck =
        Watching::start(&service, "-j trace slices --duration 3").expect("as the first one");
    // Each launch has a piece or more, each of which is two events; the ring holds 47,662.
    let run_dir = service.run_dir.display();
    let blocks = typed(&format!("-j trace blocks --run-dir {run_dir}"));
    blocks.failed(1, &["a functional device has no SMs"]);
    let launches = "vecadd --tenant first --size tiny --launches 27000 --streams 8";
    assert!(workload(&service, launches).wait().unwrap().success());
    let shown = service.ask(&["tenant", "show", "first"]);
    let slices = &shown[0]["slices"];
    let slices = slices.as_u64().unwrap_or_else(|| panic!("{shown}"));
    let (lines, said) = slow.stop();
    let (end, lines) = lines.split_last().unwrap();
    let (events, lost) = (number(&end["events"]), number(&end["lost"]));
    println!("{events} events came, {lost} were lost, of {slices} slices");
    assert_eq!(events, lines.len() as u64);
    assert!(lost > 0, "{end}");
    assert_eq!(events + lost, 2 * slices, "{said}");
    assert!(said.contains(&format!("{lost} lost")), "{said}");

    // It ends when its time is over, though nobody reads; only then is read what it wrote.
    let code = until("its end", || stuck.child.try_wait().unwrap());
    assert_eq!(code.code(), Some(0));
    let mut said = String::new();
    stuck.stderr.read_to_string(&mut said).unwrap();
    assert!(
        said.contains("that the reader of stdout did not take"),
        "{said}"
    );
    let events = stuck.rest_of_stdout().lines().count();
    assert!(said.contains(&format!("{events} events, ")), "{said}");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn what_cannot_be_watched_or_summed_up_is_said() {
    let service = Service::start("trace-wrong");
    let run_dir = service.run_dir.display();
    let pipe = format!("-j trace record --perfetto /dev/stdout --run-dir {run_dir}");
    typed(&pipe).failed(1, &["pipe, and no file"]);
    let wrong = typed(&format!("-j trace launches -t nobody --run-dir {run_dir}"));
    wrong.failed(1, &["there is no tenant \"nobody\""]);
    assert_eq!(wrong.hint(), "configured are: first, second");
    typed("-j trace launches --count 0").failed(2, &["--count"]);
    typed("-j trace launches --duration 0").failed(2, &["seconds above 0"]);
    typed("-j trace plans -t first").failed(2, &["-t"]);
    typed("-j trace launches --run-dir /nonexistent").failed(1, &["/nonexistent"]);
    let nowhere = format!("-j trace record --perfetto /nonexistent/t --run-dir {run_dir}");
    typed(&nowhere).failed(1, &["no folder /nonexistent"]);
    let text = service.run_dir.join("text");
    std::fs::write(&text, "no timeline").unwrap();
    let report = typed(&format!("-j report {}", text.display()));
    report.failed(1, &["is no timeline"]);
    assert!(report.hint().contains("gridmux trace record"));
    assert_eq!(service.stop(), Some(0));
}
