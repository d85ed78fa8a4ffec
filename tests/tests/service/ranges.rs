//! Contract: an operator sees the NVTX ranges of the service's clients, as lines and on a timeline in device time, and
//! of nobody else; whatever a program says by them harms neither it nor who watches.
//!
//! The program is `ranges.c`, which plays NVTX's side. Where this machine permits no eBPF, each test prints
//! `SKIPPED: reason` and passes.

use gridmux_testkit::message_fields;
use gridmux_tests::{Service, ServiceBuilder, driver_library, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

/// What the program says by `nested open close overlapping domains`: domain, name and event.
const SAID: [(&str, &str, &str); 19] = [
    ("-", "epoch", "push"),
    ("-", "load", "push"),
    ("-", "loaded", "mark"),
    ("-", "-", "pop"),
    ("-", "-", "pop"),
    ("-", "work", "push"),
    ("-", "-", "pop"),
    ("-", "first", "start"),
    ("-", "second", "start"),
    ("-", "in a thread", "push"),
    ("-", "-", "pop"),
    ("-", "-", "end"),
    ("-", "-", "end"),
    ("torch", "registered", "push"),
    ("torch", "plain", "mark"),
    ("torch", "-", "pop"),
    ("-", "weiß 图", "push"),
    ("-", "-", "pop"),
    ("-", "wide", "mark"),
];

/// A command whose stdout is read line by line; it is killed when dropped.
struct Running {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::piped()).spawn().expect("it starts");
        Self {
            stdin: child.stdin.take().expect("it is piped"),
            lines: BufReader::new(child.stdout.take().expect("it is piped")),
            stderr: BufReader::new(child.stderr.take().expect("it is piped")),
            child,
        }
    }

    /// Starts `gridmux -j trace` and waits until it is attached; says why where it cannot be.
    fn watch(service: &Service, line: &str) -> Option<Self> {
        let mut command = Command::new(program());
        command.args(["-j", "trace"]).args(line.split(' '));
        let mut running = Self::start(command.arg("--run-dir").arg(service.folder()));
        let mut said = String::new();
        running.stderr.read_line(&mut said).unwrap();
        if said.starts_with("tracing ") {
            return Some(running);
        }
        running.lines.read_to_string(&mut said).unwrap();
        let cannot = ["eBPF needs", "without its eBPF programs"];
        assert!(cannot.iter().any(|why| said.contains(why)), "{said}");
        println!("SKIPPED: {said}");
        None
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads up to a line.
    fn until(&mut self, word: &str) {
        loop {
            let line = self.next();
            assert!(!line.is_empty(), "it ended before {word}");
            if line == word {
                return;
            }
        }
    }

    fn go_on(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    /// Asks it to end; returns its lines, the last one apart, and what it said on stderr.
    fn stop(mut self) -> (Vec<Value>, Value, String) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGINT).unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.lines.read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut err).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{out}{err}");
        let mut lines: Vec<Value> = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let last = lines.pop().expect("how it ended");
        (lines, last, err)
    }

    /// Waits until it has ended, well.
    fn end(mut self) {
        drop(self.stdin);
        let mut err = String::new();
        self.stderr.read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {err}");
    }
}

/// The program, compiled.
struct Compiled(tempfile::TempDir);

impl Compiled {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/ranges.c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        gcc.arg(folder.path().join("ranges"))
            .arg(source)
            .arg("-ldl");
        assert!(gcc.status().expect("gcc starts").success(), "{gcc:?}");
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("ranges")
    }

    /// Starts it by `gridmux run`, and returns its process number too.
    fn run(&self, service: &Service, tenant: &str, does: &str) -> (Running, u64) {
        // The command finds the library beside itself.
        assert_eq!(driver_library().parent(), program().parent());
        let mut command = Command::new(program());
        command
            .args(["run", "--tenant", tenant, "--socket"])
            .arg(service.socket());
        command.arg("--").arg(self.path()).args(does.split(' '));
        let mut running = Running::start(command.env_remove("NVTX_INJECTION64_PATH"));
        let pid = running.next().parse().expect("its process number");
        (running, pid)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// Returns what lines say, as the domain, the name and the event.
fn said(lines: &[Value]) -> Vec<(&str, &str, &str)> {
    let lines = lines.iter();
    let parts = lines.map(|line| ["domain", "range", "event"].map(|part| text(&line[part])));
    parts
        .map(|[domain, range, event]| (domain, range, event))
        .collect()
}

/// An event of a timeline: its track's name, its time, its type (1 begins, 2 ends) and its name.
type Drawn = (String, u64, u64, String);

/// Returns the events of a file of Perfetto's.
fn drawn(file: &Path) -> Vec<Drawn> {
    let bytes = std::fs::read(file).unwrap();
    let (mut names, mut events): (HashMap<u64, String>, Vec<Drawn>) = Default::default();
    let shown = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    for (_, packet, _) in message_fields(&bytes) {
        let packet = message_fields(packet);
        let of = |wanted: u64| packet.iter().find(|(field, ..)| *field == wanted);
        if let Some((_, track, _)) = of(60) {
            let track = message_fields(track);
            let at = |wanted: u64| track.iter().find(|(field, ..)| *field == wanted).unwrap();
            names.insert(at(1).2, shown(at(2).1));
        }
        if let Some((_, event, _)) = of(11) {
            let event = message_fields(event);
            let at = |wanted: u64| event.iter().find(|(field, ..)| *field == wanted);
            let name = at(23).map_or_else(String::new, |(_, name, _)| shown(name));
            let track = names[&at(11).unwrap().2].clone();
            events.push((track, of(8).unwrap().2, at(9).unwrap().2, name));
        }
    }
    events
}

fn work(service: &Service, tenant: &str) {
    let mut command = Command::new(program());
    let line = "-j workload run vecadd --size tiny --launches 3 --tenant";
    command
        .args(line.split(' '))
        .arg(tenant)
        .arg("--socket")
        .arg(service.socket());
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

/// Checks where the ranges of [`SAID`] stand, and that what the device did during `work` stands within it.
fn check_timeline(file: &Path, pid: u64) {
    let events = drawn(file);
    let on = |track: String| events.iter().filter(move |event| event.0 == track);
    let own = format!("NVTX {pid}/{pid}");
    let types: Vec<u64> = on(own.clone()).map(|event| event.2).collect();
    assert_eq!(
        types,
        [1, 1, 3, 2, 2, 1, 2, 1, 2, 3],
        "nested, marked, ended"
    );
    assert!(on(own.clone()).map(|event| event.1).is_sorted());
    assert_eq!(on(format!("{own} torch")).count(), 3);
    assert_eq!(on(format!("NVTX {pid}")).count(), 4, "two that overlap");
    // What the device did meanwhile stands within the range.
    let work: Vec<u64> = on(own).skip(5).take(2).map(|event| event.1).collect();
    let launches: Vec<u64> = on("launches".to_owned()).map(|event| event.1).collect();
    assert_eq!(launches.len(), 6);
    assert!(
        launches.iter().all(|at| (work[0]..=work[1]).contains(at)),
        "{work:?}, {launches:?}"
    );
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/probes.md");
    let page = std::fs::read_to_string(path).unwrap();
    let part = page
        .split("\n## ")
        .find(|part| part.starts_with("Ranges of programs"));
    part.expect("the page has the part").to_owned()
}

#[test]
fn ranges_of_clients_are_lines_and_stand_on_the_timeline() {
    let service = ServiceBuilder::new(&[("first", 1), ("second", 1)]).start();
    let compiled = Compiled::new();
    let file = service.folder().join("ranges.pftrace");
    let record = format!("record --perfetto {}", file.display());
    let Some(record) = Running::watch(&service, &record) else {
        return;
    };
    let all = Running::watch(&service, "ranges").expect("as the first one");
    let second = Running::watch(&service, "ranges -t second").expect("as the first one");

    let (mut client, pid) = compiled.run(
        &service,
        "first",
        "nested connect wait open wait close overlapping domains wait",
    );
    client.until("connect");
    client.go_on();
    client.until("open");
    work(&service, "second");
    client.go_on();
    client.until("domains");
    // A process that has the library and is no client.
    let mut stranger = Command::new(compiled.path());
    stranger
        .arg("nested")
        .env("NVTX_INJECTION64_PATH", driver_library());
    assert!(stranger.output().unwrap().status.success());
    let (lines, last, _) = all.stop();
    let (_, recorded, err) = record.stop();
    client.go_on();
    client.end();

    assert!(
        lines
            .iter()
            .all(|line| line["pid"] == pid && text(&line["tenant"]) == "first")
    );
    assert_eq!(said(&lines), SAID);
    assert_eq!(
        (&last["events"], &last["lost"]),
        (&SAID.len().into(), &0.into())
    );
    assert!(last["of_no_client"].as_u64() >= Some(5), "{last}");
    let ids: Vec<&Value> = [7, 8, 11, 12]
        .iter()
        .map(|at: &usize| &lines[*at]["range_id"])
        .collect();
    assert_eq!(
        [ids[2], ids[3]],
        [ids[0], ids[1]],
        "they end in the order of their starts"
    );
    assert_ne!(lines[9]["tid"], lines[0]["tid"]);
    let (lines, last, _) = second.stop();
    assert_eq!(
        (lines.len(), &last["events"]),
        (0, &0.into()),
        "none of another tenant"
    );

    assert_eq!(
        (&recorded["ranges"], &recorded["ranges_left_out"]),
        (&SAID.len().into(), &0.into()),
        "{err}"
    );
    check_timeline(&file, pid);
}

#[test]
fn the_page_names_the_librarys_probes() {
    let library = std::fs::read(driver_library()).unwrap();
    let page = page();
    let table = page.split("| probe |").nth(1).expect("the table of probes");
    let rows = table.lines();
    let mut named: Vec<&str> = rows
        .filter_map(|row| row.strip_prefix("| `")?.split('`').next())
        .collect();
    named.sort_unstable();
    let mut probes = Vec::new();
    // In a note the provider stands before the name, and each ends with a zero.
    for at in (0..library.len() - 8).filter(|at| library[*at..].starts_with(b"gridmux\0")) {
        let mut parts = library[at + 8..].split(|byte| *byte == 0);
        let (name, arguments) = (parts.next().unwrap(), parts.next().unwrap());
        if arguments.starts_with(b"8@%") {
            assert_eq!(arguments.split(|byte| *byte == b' ').count(), 4);
            probes.push(String::from_utf8(name.to_vec()).unwrap());
        }
    }
    probes.sort();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(named, probes, "the table, and the library's notes");
    }
}

#[test]
fn the_script_of_the_page_counts_ranges() {
    let bpftrace = Command::new("bpftrace").arg("--version").output();
    if bpftrace.is_err() || !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: bpftrace is not installed, or this is not root");
        return;
    }
    let page = page();
    let script = page
        .lines()
        .find_map(|line| line.strip_prefix("bpftrace -p PROGRAM -e '"));
    let script = script
        .expect("the page has a script")
        .trim_end_matches('\'');
    let compiled = Compiled::new();
    let mut program = Command::new(compiled.path());
    let given = program
        .arg("repeated")
        .env("NVTX_INJECTION64_PATH", driver_library());
    let mut program = Running::start(given);
    let pid = program.next();
    // It does not say when it is attached.
    let is_counted = [6, 15, 30].into_iter().any(|seconds| {
        let interval = format!("{script} interval:s:{seconds} {{ exit(); }}");
        let mut bpftrace = Command::new("bpftrace");
        let output = bpftrace
            .args(["-p", &pid, "-e", &interval])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        said.contains("@begun[epoch]: ")
    });
    assert!(is_counted);
    program.go_on();
    program.end();
}

#[test]
fn whatever_a_program_says_is_bounded_and_harms_nobody() {
    let service = ServiceBuilder::new(&[("first", 1)]).start();
    let compiled = Compiled::new();
    let file = service.folder().join("hostile.pftrace");
    let record = format!("record --perfetto {}", file.display());
    let Some(record) = Running::watch(&service, &record) else {
        return;
    };
    let all = Running::watch(&service, "ranges").expect("as the first one");
    let (mut client, pid) = compiled.run(&service, "first", "connect hostile wait");
    client.until("hostile");
    let (lines, last, _) = all.stop();
    // It is asked who is a client while this one is.
    let (_, recorded, err) = record.stop();
    client.go_on();
    client.end();
    assert_eq!(
        (&last["events"], &last["lost"]),
        (&20_017.into(), &0.into())
    );
    let all = said(&lines);
    let marks: Vec<&str> = all
        .iter()
        .filter(|line| line.2 == "mark")
        .map(|line| line.1)
        .collect();
    let long = "h".repeat(64);
    let text = "\u{fffd}\u{fffd}[2J\u{fffd}";
    let due = [
        &long, "-", "-", "cut", "-", text, "w", "-", "-", "-", "-", "-", "lost",
    ];
    assert_eq!(marks, due);
    assert_eq!(all.iter().filter(|line| line.1 == "deep").count(), 10_000);

    // Two pops and two ends without a beginning, and all that is deeper than 64.
    assert_eq!(recorded["ranges_left_out"], 4 + 2 * (10_000 - 64), "{err}");
    assert!(err.contains("19876 of 20017 hits"), "{err}");
    let events = drawn(&file);
    let deep = events.iter().filter(|event| event.3 == "deep");
    assert_eq!(deep.count(), 64);
    let own = format!("NVTX {pid}/{pid}");
    assert_eq!(
        events.iter().filter(|event| event.0 == own).count(),
        12 + 128
    );
}
