//! The page about USDT probes: its table is that of the program, and its scripts run in a real bpftrace.

use crate::command::running::Service;
use crate::command::{PROGRAM, gridmux, words};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Times that bpftrace gets to attach, one after another: it does not say when it has.
const PATIENCE: [Duration; 3] = [
    Duration::from_secs(6),
    Duration::from_secs(15),
    Duration::from_secs(30),
];

/// How often bpftrace is told to end, each time with 200 ms to do it.
const TOLD: usize = 150;

/// Maps that a script prints after some launches, of which long ones give way to short ones.
const PRINTED: [(&str, &str); 5] = [
    ("launches.bt", "@total[0]: "),
    ("latency.bt", "@launch_us[0]: "),
    ("completion.bt", "@completion_us[0]: "),
    ("slices.bt", "@slice_us[0]: "),
    ("preemptions.bt", "@preempted["),
];

/// Arguments of bpftrace, and words that it is to print.
type Script<'a> = (Vec<&'a str>, &'a str);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/probes.md")).unwrap()
}

/// Returns whether bpftrace can run here; says why where it cannot.
fn is_skipped() -> bool {
    let why = match Command::new("bpftrace").arg("--version").output() {
        Err(_) => "bpftrace is not installed (Debian's package bpftrace)",
        Ok(_) if !geteuid().is_root() => "bpftrace runs as root only",
        Ok(_) => return false,
    };
    println!("SKIPPED: {why}");
    true
}

/// Starts bpftrace with these arguments on a device host.
fn start(host: &str, arguments: &[&str]) -> Child {
    let mut bpftrace = Command::new("bpftrace");
    bpftrace.args(["-p", host]).args(arguments);
    bpftrace.current_dir(repository());
    bpftrace.stdout(Stdio::piped()).stderr(Stdio::null());
    bpftrace.spawn().unwrap()
}

/// Stops one as Ctrl-C does, and returns what it printed. One that is not done with attaching does not hear it, so that
/// it is told again; what it prints is less than a pipe holds.
fn stop(mut bpftrace: Child) -> String {
    let pid = Pid::from_raw(i32::try_from(bpftrace.id()).unwrap());
    for _ in 0..TOLD {
        kill(pid, Signal::SIGINT).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        if let Some(status) = bpftrace.try_wait().unwrap() {
            let mut printed = String::new();
            let mut stdout = bpftrace.stdout.take().expect("stdout is piped");
            stdout.read_to_string(&mut printed).unwrap();
            let is_ended_early = status.signal() == Some(Signal::SIGINT as i32);
            assert!(status.success() || is_ended_early, "{status}: {printed}");
            return printed;
        }
    }
    let _ = bpftrace.kill();
    let _ = bpftrace.wait();
    panic!("bpftrace does not end");
}

/// Runs them all at once while a tenant works, and returns those that lack what they are to print.
fn lacking<'a>(service: &Service, all: &[Script<'a>], patience: Duration) -> Vec<Script<'a>> {
    let host = service.ask(&["device", "show"])["host_pid"].to_string();
    let started: Vec<Child> = all
        .iter()
        .map(|(arguments, _)| start(&host, arguments))
        .collect();
    std::thread::sleep(patience);
    let run_dir = service.run_dir.to_str().unwrap();
    let long = words(
        "workload run matmul --tenant second --size small --launches 12 --streams 3 --run-dir",
    );
    let mut long = Command::new(PROGRAM)
        .args(long.into_iter().chain([run_dir]))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let short = words("workload run vecadd --tenant first --size tiny --launches 60 --run-dir");
    gridmux(short.into_iter().chain([run_dir])).succeeded();
    assert!(long.wait().unwrap().success());
    let printed: Vec<String> = started.into_iter().map(stop).collect();
    let lacks = |(script, printed): (&Script<'a>, &String)| {
        let has = script.1.split(' ').all(|part| printed.contains(part));
        (!has).then(|| script.clone())
    };
    all.iter().zip(&printed).filter_map(lacks).collect()
}

/// Runs scripts until each has printed what it is to print.
fn run_all<'a>(service: &Service, mut scripts: Vec<Script<'a>>) {
    for patience in PATIENCE {
        scripts = lacking(service, &scripts, patience);
        if scripts.is_empty() {
            return;
        }
    }
    panic!("these print nothing: {scripts:?}");
}

#[test]
fn every_script_shows_a_tenants_launches() {
    if is_skipped() {
        return;
    }
    let service = Service::start("bpftrace");
    if service.ask(&["device", "show"])["ebpf"] != true {
        println!("SKIPPED: this machine permits no eBPF");
        return;
    }
    let folder = repository().join("packaging/bpftrace");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<String> = entries.map(|path| path.display().to_string()).collect();
    files.sort();
    let scripts = files.iter().map(|file| {
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        let printed = PRINTED.iter().find(|(script, _)| *script == name);
        let (_, printed) = printed.unwrap_or_else(|| panic!("{name} has no row in `PRINTED`"));
        (vec![file.as_str()], *printed)
    });
    run_all(&service, scripts.collect());
    let page = page();
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix("bpftrace -p HOST -e '"));
    let programs: Vec<&str> = lines.map(|line| line.trim_end_matches('\'')).collect();
    assert_eq!(programs.len(), 3, "one-liners of the page");
    let one_liners = programs.iter().map(|program| (vec!["-e", *program], "@"));
    run_all(&service, one_liners.collect());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_page_names_the_programs_probes_and_every_script() {
    let page = page();
    let program = fs::read(PROGRAM).unwrap();
    let mut probes = Vec::new();
    // In a note the provider stands before the name, and each ends with a zero.
    for (at, _) in program
        .windows(8)
        .enumerate()
        .filter(|(_, word)| *word == b"gridmux\0")
    {
        let name = program[at + 8..].split(|byte| *byte == 0).next().unwrap();
        let arguments = &program[at + 8 + name.len() + 1..];
        // The first argument of every probe is the tenant.
        if arguments.starts_with(b"4@%") {
            probes.push(String::from_utf8(name.to_vec()).unwrap());
        }
    }
    probes.sort();
    probes.dedup();
    let table = page.split("\n## ").find(|part| part.starts_with("Probes,"));
    let rows = table.unwrap().lines();
    let mut named: Vec<&str> = rows
        .filter_map(|row| row.strip_prefix("| `")?.split('`').next())
        .collect();
    named.sort_unstable();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(
            named, probes,
            "the table of probes, and the program's notes"
        );
    }
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for cause in gridmux_bpf::Cause::ALL {
        let named = format!("{} `{}`", cause as u8, cause.name());
        assert!(words.contains(&named), "{named}");
    }
    for (script, _) in PRINTED {
        let path = format!("`packaging/bpftrace/{script}`");
        assert!(page.contains(&path), "{path}");
    }
}
