//! What `gridmux doctor` says of this machine, of a service, and of programs that go past it.

mod bypass;

use crate::command::running::{Running, Service, until};
use crate::command::{Ran, gridmux, json_of};
use bypass::Bypass;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time from the start of a program until it is named, on a machine that has other work to do.
const PROMPTLY: Duration = Duration::from_secs(5);

/// Runs `doctor` with a configuration and the folder of a service.
fn doctor(configuration: &str, run_dir: &Path) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gridmux.toml");
    std::fs::write(&file, configuration).unwrap();
    let config = ["-j", "doctor", "--config"].map(AsRef::as_ref);
    let arguments = [
        &config[..],
        &[file.as_os_str(), "--run-dir".as_ref(), run_dir.as_os_str()],
    ];
    gridmux(arguments.concat())
}

const RIGHT: &str = "schema_version = 1\n[[tenant]]\nname = \"me\"\n";

/// Returns the checks about something.
fn about<'a>(report: &'a Value, about: &str) -> Vec<&'a Value> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["about"] == about).collect()
}

#[test]
fn every_check_is_a_line_and_what_is_not_right_can_be_mended() {
    let ran = doctor(RIGHT, "/nowhere".as_ref());
    let report = ran.json();
    for name in [
        "kernel",
        "BTF",
        "capabilities",
        "eBPF",
        "lockdown",
        "bpffs",
        "memlock",
        "cgroup v2",
        "NVIDIA driver",
        "service",
        "configuration",
        "libraries",
        "bypass",
    ] {
        assert!(!about(&report, name).is_empty(), "{name}: {report}");
    }
    for check in report["checks"].as_array().unwrap() {
        let remedy = check["remedy"].as_str();
        assert_eq!(check["verdict"] == "ok", remedy.is_none(), "{check}");
    }
    let fails = |check: &&Value| check["verdict"] == "failure";
    let failures = report["checks"].as_array().unwrap().iter().filter(fails);
    let ok = failures.count() == 0;
    assert_eq!(report["ok"], ok, "{report}");
    assert_eq!(ran.code, Some(if ok { 0 } else { 1 }));
    assert_eq!(about(&report, "service")[0]["verdict"], "warning");
    let text = gridmux(["doctor", "--run-dir", "/nowhere"]).stdout;
    assert!(
        text.contains("TO MEND IT") && text.contains("kernel"),
        "{text}"
    );
}

#[test]
fn a_configuration_that_is_wrong_is_a_failure() {
    let ran = doctor(
        "schema_version = 1\npolicy = \"best\"\n",
        "/nowhere".as_ref(),
    );
    assert_eq!(ran.code, Some(1));
    let report = ran.json();
    let found = about(&report, "configuration")[0];
    assert_eq!(found["verdict"], "failure");
    let remedy = found["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("gridmux serve --check"), "{remedy}");
    assert!(
        found["message"].as_str().unwrap().contains("best"),
        "{found}"
    );
}

#[test]
fn a_service_for_a_gpu_needs_the_driver() {
    if Path::new("/proc/driver/nvidia/version").exists() {
        println!("SKIPPED: this machine has NVIDIA's driver");
        return;
    }
    let on_gpu = format!("{RIGHT}[device]\nkind = \"cuda:0\"\n");
    let ran = doctor(&on_gpu, "/nowhere".as_ref());
    assert_eq!(ran.code, Some(1));
    assert_eq!(about(&ran.json(), "NVIDIA driver")[0]["verdict"], "failure");
}

#[test]
fn a_service_that_runs_hangs_or_has_ended_is_told() {
    let service = Service::start("doctor");
    let verdict = |ran: &Ran| {
        let report = ran.json();
        let found = about(&report, "service")[0].clone();
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("verdict"), text("message"))
    };
    let (runs, message) = verdict(&doctor(RIGHT, &service.run_dir));
    assert_eq!(runs, "ok", "{message}");
    assert!(message.contains("SM model h200"), "{message}");
    let pid = Pid::from_raw(i32::try_from(service.running.child.id()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    let hangs = doctor(RIGHT, &service.run_dir);
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(hangs.code, Some(1));
    let (verdict_then, message) = verdict(&hangs);
    assert_eq!(verdict_then, "failure", "{message}");
    assert!(message.contains("wedged"), "{message}");
    kill(pid, Signal::SIGKILL).unwrap();
    until("its socket is left", || {
        let (verdict, message) = verdict(&doctor(RIGHT, &service.run_dir));
        (verdict == "failure" && message.contains("left its socket")).then_some(())
    });
}

#[test]
fn a_program_with_another_driver_library_is_named() {
    let bypass = Bypass::new();
    // What a program calls itself, and where its library lies, may be anything.
    let strange = bypass.path("a\u{1b}[2J");
    std::fs::create_dir(&strange).unwrap();
    let library = strange.join("libcuda.so.580.1");
    std::fs::copy(bypass.library(), &library).unwrap();
    let program = bypass.start(&library, "\u{1b}[31mevil");
    let asked = ["-j", "doctor", "--run-dir", "/nowhere"];
    let found = |report: &Value| {
        let mut all = report["bypassing"].as_array().unwrap().iter();
        all.find(|of| of["pid"] == program.pid()).cloned()
    };
    let report = gridmux(asked).json();
    let named = found(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(named["name"], "\u{fffd}[31mevil");
    let path = library.display().to_string().replace('\u{1b}', "\u{fffd}");
    assert_eq!(named["libraries"], json!([path]));
    assert_eq!(named["uid"], geteuid().as_raw());
    let warned = about(&report, "bypass");
    let is_ours = |check: &&&Value| {
        let message = check["message"].as_str().unwrap();
        message.contains(&format!("process {} ", program.pid()))
    };
    assert_eq!(warned.iter().filter(is_ours).count(), 1, "{warned:?}");
    let known = json_of(
        asked
            .into_iter()
            .map(AsRef::as_ref)
            .chain(["--ours".as_ref(), library.as_os_str()]),
    );
    assert_eq!(found(&known), None, "it was said to be one of ours");
}

#[test]
fn a_program_whose_first_thread_has_ended_is_named() {
    let bypass = Bypass::new();
    let program = bypass.start_threaded(&bypass.library());
    let report = gridmux(["-j", "doctor", "--run-dir", "/nowhere"]).json();
    let mut all = report["bypassing"].as_array().unwrap().iter();
    let named = all.find(|of| of["pid"] == program.pid());
    let named = named.unwrap_or_else(|| panic!("{report}"));
    assert_eq!(named["libraries"], json!([bypass.library()]));
}

#[test]
fn calls_past_the_service_are_counted_and_their_program_is_named_at_once() {
    let bypass = Bypass::new();
    let mut watch = Running::line("-j doctor --watch 12 --run-dir /nowhere");
    let mut next = || {
        let line = watch.next();
        (line["error"].is_null())
            .then_some(line.clone())
            .ok_or(line)
    };
    let started = Instant::now();
    let mut program = bypass.start(&bypass.library(), "trainer");
    // Others' programs are named, too.
    let mut event = |name: &str, pid: u32| {
        loop {
            match next() {
                Ok(line) if line["event"] == name && line["pid"] == pid => return Some(line),
                Ok(line) => assert_ne!(line["event"], "end", "no {name} of {pid}"),
                Err(refused) => {
                    println!("SKIPPED: {}", refused["error"]);
                    return None;
                }
            }
        }
    };
    if event("maps", program.pid()).is_none() {
        return;
    }
    assert!(started.elapsed() < PROMPTLY, "{:?}", started.elapsed());
    let called = Instant::now();
    program.call();
    program.call();
    let first = event("calls", program.pid()).unwrap();
    assert!(called.elapsed() < PROMPTLY, "{:?}", called.elapsed());
    assert_eq!(first["name"], "trainer");
    // The library is known by now: one that is gone before anybody looks is counted, too.
    let mut short = bypass.start(&bypass.library(), "short");
    short.call();
    let gone = short.pid();
    drop(short);
    assert_eq!(event("calls", gone).unwrap()["name"], "short");
    let end = loop {
        let line = watch.next();
        if line["event"] == "end" {
            break line;
        }
    };
    let callers = end["callers"].as_array().unwrap();
    for (pid, times) in [(program.pid(), 2), (gone, 1)] {
        let found = callers.iter().find(|of| of["pid"] == pid);
        let found = found.unwrap_or_else(|| panic!("{pid}: {end}"));
        let counts = ["launches", "allocations", "copies"].map(|key| found[key].as_u64());
        assert_eq!(counts, [2, 1, 3].map(|each| Some(each * times)), "{end}");
    }
    assert_eq!(end["calls_unkept"], 0);
    assert_eq!(watch.exit_code(), Some(0));
}

#[test]
fn without_a_configuration_named_that_of_the_service_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "schema_version = 1\n").unwrap();
    let service = Service::start_with("doctor-asks", &["--config", file.to_str().unwrap()]);
    let check = || {
        let report = gridmux([
            "-j",
            "doctor",
            "--run-dir",
            service.run_dir.to_str().unwrap(),
        ])
        .json();
        about(&report, "configuration")[0].clone()
    };
    let right = check();
    assert_eq!(right["verdict"], "ok", "{right}");
    assert!(
        right["message"].as_str().unwrap().contains("mine.toml"),
        "{right}"
    );
    std::fs::write(&file, "schema_version = 1\npolicy = \"none\"\n").unwrap();
    let wrong = check();
    assert_eq!(wrong["verdict"], "failure", "{wrong}");
    assert!(
        wrong["remedy"].as_str().unwrap().contains("mine.toml"),
        "{wrong}"
    );
    assert_eq!(service.stop(), Some(0));
}
