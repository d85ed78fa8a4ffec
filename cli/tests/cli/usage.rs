//! What scripts rely on in every command: exit codes, JSON errors, and quiet ends.

use crate::command::{PROGRAM, Ran, gridmux, json_of, text_of, typed, words, workload_ptx};
use std::process::{Command, Stdio};

/// Command lines that are wrong, whatever files hold and services say.
const WRONG: &[&str] = &[
    "-j nonsense",
    "nonsense -j",
    "policy -jp",
    "poli list --json",
    "ptx check -j",
    "ptx rewrite --form origami x.ptx -p",
    "-j sim kernel x.ptx --entry k --grid 0 --block 1",
    "-j sim kernel x.ptx --entry k --grid 1 --block 1 --arg u9=1",
    "-j sim kernel x.ptx --entry k --grid 1 --block 1 --slice-blocks 2",
    "-j latency 0",
    "-j serve --tenant a:heavy",
    "-j serve --tenant a:2 --tenant a:5",
    "-j workload run nonsense --socket /nowhere",
    "-j serve --sms 0 --tenant a",
    "-j serve --device tpu --tenant a",
    "-j serve --policy best --tenant a",
    "-j serve --instance ../x --tenant a",
    "-j serve --tenant a:0",
    "-j serve --check --sms 0 --tenant a",
    "-j demo --sms 0",
    "-j demo --device tpu",
    "-j run --sms 0 -- true",
    "-j run --kernel-seconds nan -- true",
    "-j policy show best",
    "-j metrics --listen nowhere",
    "-j prog show --cost 0",
    "-j doctor --watch soon",
    "-j doctor --watch 1 --config x",
    "-j sim kernel x.ptx --entry k --grid 1 --block 1 --gpu tpu",
    "-j sim mix vecadd --policy fifo --gpu tpu",
    // What no GPU has is found before the file is looked for, which is not there.
    "-j sim kernel x.ptx --entry k --grid 1 --block 2048",
    "-j sim kernel x.ptx --entry k --grid 1 --block 2048 --gpu h200 --gpu v100",
    "-j sim kernel x.ptx --entry k --grid 1 --block 32 --shared 1000000",
    "-j sim kernel x.ptx --entry k --grid 1 --block 32 --gpu h200 --gpu v100 --arg inout=x:x",
    "-j sim mix k=x.ptx,entry=k,grid=1,block=2048 --policy fifo",
    "-j sim trace x.trace --tenant x:1001",
    "-j sim trace x.trace --sms 0",
    "-j sim trace x.trace --sms 133",
    "-j sim trace x.trace --set sm.count=4,8",
    "-j sim gpu show gtx980 --set sm.count=4,8",
    "-j workload run vecadd --elements 0 --socket /nowhere",
    "-j workload run vecadd --size huge --socket /nowhere",
    "-j tenant set a --weight 0 --run-dir /nowhere",
    "-j tenant set a --clients 0 --run-dir /nowhere",
    "-j tenant set a --class fast --run-dir /nowhere",
    "-j tenant set a --memory-limit 1KiB --run-dir /nowhere",
    "-j policy set best --run-dir /nowhere",
    "-j demo --work 0",
    "-j run --weight 0 -- true",
    "-j run --sms 500 -- true",
    "-j run --timed --device cuda:0 -- true",
    "-j run --device model:h200 --tenant ../x -- true",
];

#[test]
fn wrong_usage_exits_with_2_and_says_so_in_json() {
    for line in WRONG {
        let arguments: Vec<&str> = line.split(' ').collect();
        let ran = gridmux(&arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.json_error().is_empty(), "{arguments:?}");
        assert_eq!(ran.stderr, "", "{arguments:?}");
    }
}

#[test]
fn what_files_and_services_say_is_a_failure_and_no_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad");
    std::fs::write(&file, "nonsense\n").unwrap();
    let file = file.to_str().unwrap();
    let launch = ["--entry", "k", "--grid", "1", "--block", "32"];
    for arguments in [
        &words("tenant set a --weight 2 --run-dir /nowhere")[..],
        &["policy", "set", "fifo", "--run-dir", "/nowhere"],
        &["policy", "profiles", file],
        &["ptx", "check", file],
        &["sim", "trace", file],
        &["serve", "--config", file],
        &["workload", "run", "vecadd", "--socket", "/nowhere"],
        &[&["sim", "kernel", file][..], &launch].concat(),
        &[&["sim", "kernel", &workload_ptx("vecadd")][..], &launch].concat(),
    ] {
        let ran = gridmux(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {}", ran.stderr);
    }
    for page in [&["--help"][..], &["man"]] {
        let text = text_of(page);
        assert!(text.contains("2 the command line is wrong"), "{text}");
    }
}

#[test]
fn a_level_of_logs_that_does_not_exist_is_told_and_passed_over() {
    let say = |level: &str| {
        let mut command = Command::new(PROGRAM);
        let output = command.args(["policy", "list"]).env("GRIDMUX_LOG", level);
        let output = output.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for right in ["debug", "gridmux_mediator=debug", ""] {
        assert_eq!(say(right), "", "{right:?}");
    }
    for wrong in ["debgu", "gridmux_mediator=debgu"] {
        let said = say(&format!("{wrong},info"));
        for part in [
            &format!("GRIDMUX_LOG: {wrong:?}"),
            "error, warn, info, debug, trace",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn without_json_errors_go_to_stderr_with_a_hint() {
    for (command, due) in [
        (
            &["sim", "gpu", "show", "nonsense"][..],
            "\nhint: gridmux sim gpus",
        ),
        (
            &["workload", "run", "nonsense"],
            "[possible values: vecadd, ",
        ),
    ] {
        let ran = gridmux(command);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
        assert!(ran.stderr.contains(due), "{}", ran.stderr);
    }
}

#[test]
fn a_form_that_does_not_exist_is_refused_with_those_that_do() {
    let ran = gridmux(["ptx", "rewrite", "--form", "turbo", &workload_ptx("vecadd")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(
        ran.stderr.contains("whole, slice, worker, fence"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_policy_that_does_not_exist_is_refused_before_anything_runs() {
    let ran = gridmux(["-j", "demo", "--policy", "nope"]);
    ran.failed(2, &["nope", "--policy", "fifo", "smk-p"]);
}

#[test]
fn more_sms_than_there_are_is_refused_with_their_number() {
    for arguments in [&["demo"][..], &["serve", "--tenant", "a"]] {
        let ran = gridmux(arguments.iter().chain(&["-j", "--sms", "500"]));
        ran.failed(2, &["device.sms", "132"]);
    }
    let ran = gridmux(words("-j sim mix vecadd sad --policy fifo --sms 99"));
    assert_eq!(
        (ran.code, &*ran.json_error()),
        (Some(2), "--sms: 99 is more than the 16 SMs of gtx980")
    );
    assert!(ran.hint().contains("--set sm.count=99"), "{}", ran.hint());
}

#[test]
fn several_values_of_a_key_are_for_sim_kernel_only() {
    let ran = gridmux(words("-j sim mix vecadd --policy fifo --set sm.count=4,8"));
    ran.failed(2, &["--set sm.count=4,8", "only with `gridmux sim kernel`"]);
    for (command, is_told) in [
        ("kernel", true),
        ("mix", false),
        ("trace", false),
        ("gpu show", false),
    ] {
        let help = gridmux(words(&format!("sim {command} --help")));
        let help = help.succeeded().stdout;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("sm.scheduler=lrr"), "{help}");
        assert_eq!(help.contains("several values"), is_told, "{help}");
    }
}

#[test]
fn a_service_that_does_not_run_is_a_failure_with_a_hint() {
    for arguments in [&["tenant", "show"][..], &["device", "show"], &["latency"]] {
        let ran = gridmux([arguments, &["--run-dir", "/nonexistent", "-j"]].concat());
        ran.failed(1, &["no service answers at /nonexistent"]);
        assert!(ran.hint().contains("gridmux serve"));
    }
}

#[test]
fn a_name_that_nobody_can_look_up_is_not_passed_over() {
    let ran = typed("-j latency nobody --instance x --run-dir /nonexistent");
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.hint().contains("leave the name out"), "{}", ran.stdout);
}

#[test]
fn each_cause_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "nonsense = 1\n").unwrap();
    let file = file.to_str().unwrap();
    let below = format!("{file}/run");
    let kernel = workload_ptx("vecadd");
    let serve = format!("serve --tenant a --run-dir {below}");
    let sim = format!("sim kernel {kernel} --entry vecadd --grid 1 --block 1 --gpu {file}");
    for (command, cause) in [
        ("tenant list --run-dir /nonexistent", "os error 2"),
        ("serve --config /nonexistent", "os error 2"),
        (&serve, "no directory"),
        ("workload run vecadd --socket /nonexistent", "os error 2"),
        (&sim, "key 'nonsense'"),
    ] {
        let ran = typed(&format!("{command} -j"));
        assert_eq!(ran.code, Some(1), "{command}");
        let error = ran.json_error();
        assert_eq!(error.matches(cause).count(), 1, "{error}");
    }
}

#[test]
fn a_configuration_with_an_unknown_key_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gridmux.toml");
    std::fs::write(&file, "schema_version = 1\npolcy = \"fifo\"\n").unwrap();
    let ran = gridmux(["-j", "serve", "--config", file.to_str().unwrap()]);
    ran.failed(1, &["polcy", "gridmux.toml"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(PROGRAM)
        .args(["ptx", "rewrite", "--form", "whole", &workload_ptx("vecadd")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn policies_are_listed_with_what_they_promise() {
    let json = json_of(["policy", "list", "-j"]);
    let promises = |name: &str| {
        let mut policies = json.as_array().unwrap().iter();
        let policy = policies.find(|policy| policy["name"] == name);
        let policy = policy.unwrap_or_else(|| panic!("no {name}"));
        for key in ["summary", "source", "paper"] {
            let text = policy[key].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{policy}");
        }
        policy["promises_weights"].as_bool().unwrap()
    };
    assert_eq!((promises("fifo"), promises("smk-p")), (false, true));
    let text = text_of(["policy", "list"]);
    for (name, weights, samples) in [
        ("smk-p", "yes", "unused"),
        ("even", "used", "unused"),
        ("accelos", "used", "unused"),
        ("sjf", "no", "unused"),
        ("kernelet", "no", "needed"),
    ] {
        let mut lines = text.lines().map(str::split_whitespace);
        let line = lines.find(|line| line.clone().next() == Some(name));
        let words: Vec<&str> = line.unwrap_or_else(|| panic!("{text}")).take(3).collect();
        assert_eq!(words, [name, weights, samples], "{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(
        text.contains("PAPER") && text.contains("SMK 2016"),
        "{text}"
    );
}

#[test]
fn a_policy_is_shown_with_its_weights_and_with_every_executor() {
    let show = |name: &str| {
        let text = text_of(["policy", "show", name]);
        let json = json_of(["policy", "show", name, "-j"]);
        (text, json)
    };
    let (text, json) = show("fifo");
    assert!(text.contains("they have no meaning"), "{text}");
    assert!(
        text.contains("unused") && json["sampled"].is_null(),
        "{text}"
    );
    let (needs_samples, json_of_it) = show("kernelet");
    let without = "needed; without them, launches run one after another";
    assert!(needs_samples.contains(without), "{needs_samples}");
    let held = json_of_it["sampled"]["device"].as_str().unwrap();
    assert!(held.starts_with("no: "), "{json_of_it}");
    let (with_weights, _) = show("smk-p");
    assert!(with_weights.contains("weights  promised"), "{with_weights}");
    for executor in ["event", "model", "device"] {
        let holds = json["enforced"][0][executor].as_str();
        assert!(holds.is_some_and(|holds| !holds.is_empty()), "{json}");
        let is_row = |line: &str| line.split_whitespace().take(2).any(|word| word == executor);
        assert!(text.lines().any(is_row), "{text}");
    }
}

#[test]
fn profiles_are_listed_and_a_bad_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles").to_str().unwrap().to_owned();
    let header = "{\"format\":\"gridmux profiles\",\"version\":2,\"device\":\"a GPU\",\"sms\":8,\"profiles\":1}\n";
    let line = "{\"key\":\"00000000000000ff\",\"block_ns\":1500.5,\"blocks\":7,\"alone\":true}\n";
    std::fs::write(&path, format!("{header}{line}")).unwrap();
    let json = json_of(["policy", "profiles", &path, "-j"]);
    let expected = serde_json::json!({
        "device": { "name": "a GPU", "sms": 8 },
        "profiles": [{ "key": "00000000000000ff", "block_ns": 1500.5, "blocks": 7, "alone": true }],
    });
    assert_eq!(json, expected);
    let text = text_of(["policy", "profiles", &path]);
    for part in ["\"a GPU\" with 8 SMs", "00000000000000ff", "1.5us", "yes"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (bad, place) in [
        (
            format!("{header}{}", &line[..20]),
            "line 2: the line is cut off",
        ),
        (header.to_owned(), "line 1"),
        (
            header.replace("version\":2", "version\":1"),
            "line 1: version 1 is unknown",
        ),
        (String::new(), "line 1: the file is empty"),
    ] {
        std::fs::write(&path, bad).unwrap();
        gridmux(["-j", "policy", "profiles", &path]).failed(1, &[&path, place]);
    }
    let ran = gridmux(["-j", "policy", "profiles", "/nonexistent/profiles"]);
    assert!(ran.json_error().contains("/nonexistent/profiles"));
}

#[test]
fn what_help_refers_to_is_there() {
    let json = json_of(["workload", "list", "-j"]);
    for workload in json.as_array().unwrap() {
        let elements = workload["elements"].as_str();
        assert!(elements.is_some_and(|text| !text.is_empty()), "{workload}");
    }
    for (command, words) in [
        ("ptx rewrite", &["fence+worker"][..]),
        ("sim kernel", &["fence+worker"]),
        ("serve", &["/run/gridmux", "SIGTERM", "root"]),
        (
            "tenant list",
            &["CLASS", "ASKED", "GOT", "PENDING", "behind"],
        ),
        ("tenant show", &["UID"]),
        ("kernel show", &["PROVEN", "LEVEL", "ROLE", "COST"]),
        ("trace launches", &["QUEUE_us", "RUN_us", "lost", "UTC"]),
        ("trace record", &["Perfetto", "Ctrl-C"]),
        ("report", &["STDDEV", "PREEMPTED"]),
        ("sim trace", &["SLOWDOWN", "ASKED", "GOT", "ANTT"]),
        (
            "sim mix",
            &[
                "ercbench:sha1",
                "launches=N",
                "think=TIME",
                "at=TIME|PERCENT%",
                "Examples:",
            ],
        ),
        (
            "run",
            &[
                "SIGTERM",
                "SIGINT",
                "--kernel-seconds",
                "[default: 300]",
                "--lenient-bounds",
            ],
        ),
        ("latency", &["hand-over"]),
    ] {
        let help = typed(&format!("{command} --help")).succeeded().stdout;
        for word in words {
            assert!(help.contains(word), "{word}: {help}");
        }
    }
}

#[test]
fn a_named_pipe_is_no_file_and_the_pipe_of_a_shell_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("k.ptx");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    let toml = folder.path().join("gpu.toml");
    nix::unistd::mkfifo(&toml, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let toml = toml.to_str().unwrap();
    let kernel = "--entry vecadd --grid 1 --block 32";
    let ptx = workload_ptx("vecadd");
    for command in [
        format!("ptx rewrite --form slice {pipe}"),
        format!("policy profiles {pipe}"),
        format!("serve --config {pipe}"),
        format!("sim kernel {pipe} {kernel}"),
        format!("sim kernel --gpu {toml} {ptx} {kernel}"),
        format!("sim kernel --arg in={pipe} {ptx} {kernel}"),
        format!("sim trace {pipe}"),
        format!("sim mix vecadd --policy fifo --profiles {pipe}"),
    ] {
        let ran = typed(&format!("{command} -j"));
        assert_eq!(ran.code, Some(1), "{command}: {}", ran.stderr);
        let error = ran.json_error();
        let mut reasons = ["named pipe", "no regular file"].iter();
        let says_so = reasons.any(|words| error.contains(words));
        assert!(says_so, "{command}: {error}");
    }
    let ran = gridmux(["ptx", "check", "-j", pipe]);
    assert!(ran.stdout.contains("named pipe"), "{}", ran.stdout);
    let shell = |script: String| Command::new("bash").args(["-c", &script]).output().unwrap();
    for script in [
        format!("{PROGRAM} ptx check <(cat {ptx})"),
        format!("{PROGRAM} ptx check - < {ptx}"),
    ] {
        let output = shell(script.clone());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("vecadd"),
            "{script}: {text}"
        );
    }
}

#[test]
fn nothing_that_somebody_named_is_obeyed_by_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a\u{1b}[31mb.ptx");
    std::fs::copy(workload_ptx("vecadd"), &file).unwrap();
    let file = file.to_str().unwrap();
    let toml = folder.path().join("g.toml");
    std::fs::write(&toml, "schema_version = 1\n\"\\u001b[2J\" = 1\n").unwrap();
    let toml = toml.to_str().unwrap();
    let mix = "x\u{1b}[2Jy=vecadd,size=tiny";
    for arguments in [
        vec!["ptx", "check", file],
        vec!["ptx", "check", "no\u{1b}[31msuch.ptx"],
        vec!["sim", "mix", mix, "--policy", "fifo"],
        vec!["serve", "--check", "--config", toml],
        vec!["tenant", "\u{1b}[31m"],
        vec!["policy", "show", "\u{9b}31m"],
    ] {
        let ran = gridmux(&arguments);
        let said = ran.stdout + &ran.stderr;
        assert!(!said.is_empty(), "{arguments:?}");
        let obeyed = said
            .chars()
            .find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(obeyed, None, "{arguments:?}: {said:?}");
    }
}
