//! `gridmux sim mix`: workloads of every kind on both executors, figures that follow from each other, and errors that
//! say what to do.

use crate::command::traces::{Launch, SMS, Traces, line, process};
use crate::command::{Ran, gridmux, json_of, typed, words, workload_ptx};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

/// How much a figure may be off: what launching and sleeping cost.
const TOLERANCE: f64 = 0.05;

fn run(arguments: &[&str]) -> Ran {
    gridmux(["-j", "sim", "mix"].iter().chain(arguments))
}

fn figures(arguments: &[&str]) -> Value {
    run(arguments).succeeded().json()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[track_caller]
fn close(value: f64, due: f64) {
    assert!(
        (value / due - 1.0).abs() <= TOLERANCE,
        "{value} instead of {due}"
    );
}

#[test]
fn metrics_follow_from_the_programs_and_a_run_repeats() {
    let arguments = words("ercbench:nlm2 ercbench:jpeg-d,at=25% --policy fifo-strict --gpu gtx480");
    let report = figures(&arguments);
    let head = ["policy", "on", "gpu"].map(|key| &report[key]);
    assert_eq!(head, ["fifo-strict", "event", "gtx480"]);
    let [first, second] = [&report["programs"][0], &report["programs"][1]];
    assert_eq!([&first["name"], &second["name"]], ["nlm2", "jpeg-d"]);
    let slowdowns = [first, second].map(|program| number(&program["slowdown"]));
    close(slowdowns[0], 1.0);
    assert!(slowdowns[1] > 10.0, "it waits for the long one: {report}");
    let metric = |name: &str| number(&report["metrics"][name]);
    close(metric("stp"), 1.0 / slowdowns[0] + 1.0 / slowdowns[1]);
    close(metric("antt"), f64::midpoint(slowdowns[0], slowdowns[1]));
    close(metric("worst_antt"), slowdowns[1]);
    close(metric("min_speedup"), 1.0 / slowdowns[1]);
    close(metric("fairness"), slowdowns[0] / slowdowns[1]);
    close(metric("unfairness"), slowdowns[1] / slowdowns[0]);
    let ratio = number(&report["serial_ns"]) / number(&report["makespan_ns"]);
    close(metric("throughput"), ratio);
    assert!((0.0..=1.0).contains(&metric("overlap")), "{report}");
    // A quarter of the first one's time alone, and the time from arrival to end.
    close(
        number(&second["arrival_ns"]),
        0.25 * number(&first["alone_ns"]),
    );
    close(
        number(&second["together_ns"]),
        number(&second["end_ns"]) - number(&second["arrival_ns"]),
    );
    assert_eq!(report, figures(&arguments));
    // By remaining time the short one does not wait for the end of the long one.
    let mut arguments = arguments;
    arguments[3] = "srtf";
    let srtf = figures(&arguments);
    let antt = number(&srtf["metrics"]["antt"]);
    assert!(antt < 0.7 * metric("antt"), "{antt}: {srtf}");
}

#[test]
fn the_timeline_shows_who_held_what() {
    let report = figures(&["spmv", "a=spmv", "--policy", "fifo-strict"]);
    let held = |program: usize| {
        let track = &report["timeline"][program];
        let sum = |of: &str| {
            let parts = track[of].as_array().unwrap().iter();
            parts.map(number).sum::<f64>() * number(&track["span_ns"])
        };
        [sum("held"), sum("running"), sum("waiting")]
    };
    let alone = number(&report["programs"][0]["alone_ns"]);
    let [first, second] = [held(0), held(1)];
    // Its last blocks run beside the first ones of the other, which need the same.
    assert!(
        first[1] >= 0.99 * alone && first[1] < 1.1 * alone,
        "{first:?}"
    );
    assert!(first[0] <= first[1] && first[0] > 0.8 * alone, "{first:?}");
    // It waits until the first one leaves room, near its end.
    assert!(second[2] > 0.8 * alone && second[2] < alone, "{second:?}");
    close(
        second[1] + second[2],
        number(&report["programs"][1]["end_ns"]),
    );
}

#[test]
fn launches_arrive_in_open_and_closed_loops() {
    let report = figures(&words(
        "open=vecadd,launches=5,every=1ms closed=vecadd,launches=5,think=1ms,at=3s --policy fifo",
    ));
    let [open, closed] = [&report["programs"][0], &report["programs"][1]];
    let one = number(&open["alone_ns"]);
    assert_eq!([&open["launches"], &closed["launches"]], [5, 5]);
    close(number(&open["end_ns"]), 4e6 + one);
    let span = number(&closed["end_ns"]) - number(&closed["arrival_ns"]);
    close(span, 4e6 + 5.0 * one);
    assert!((number(&closed["arrival_ns"]) - 3e9).abs() < 1.0);
    // Launches that come more quickly than they end wait for each other, alone as well.
    let report = figures(&["vecadd,launches=5,every=1us", "--policy", "fifo"]);
    close(number(&report["programs"][0]["alone_ns"]), 3.0 * one);
}

#[test]
fn on_the_model_results_are_verified() {
    let report = figures(&words(
        "a=vecadd,size=tiny,launches=3 b=matmul,size=tiny,weight=2,class=latency \
         c=bfs,size=tiny,at=10us --on model --policy smk-p --sms 2",
    ));
    let programs = report["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 3);
    for program in programs {
        assert_eq!(program["verified"], true, "{program}");
        assert!(number(&program["slowdown"]) >= 0.99, "{program}");
    }
    assert_eq!(
        (&report["on"], &report["sms"]),
        (&json!("model"), &json!(2))
    );
    assert_eq!(programs[1]["class"], "latency");
    let report = figures(&["vecadd,size=tiny", "--policy", "fifo"]);
    assert_eq!(report["programs"][0]["verified"], Value::Null);
}

#[test]
fn a_kernel_of_the_users_runs_on_both_executors() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let n = 1024_u32;
    let numbers =
        |of: fn(u16) -> f32| -> Vec<u8> { (0..1024).flat_map(|i| of(i).to_le_bytes()).collect() };
    std::fs::write(path("a"), numbers(f32::from)).unwrap();
    std::fs::write(path("b"), numbers(|i| 2.0 * f32::from(i))).unwrap();
    let entry = gridmux_workloads::by_name("vecadd").unwrap().entry;
    let own = format!(
        "mine={},entry={entry},grid=4,block=256,arg=in={},arg=in={},arg=out=4096:{},arg=u32={n}",
        workload_ptx("vecadd"),
        path("a"),
        path("b"),
        path("c")
    );
    let both = [&*own, "vecadd,size=tiny", "--policy", "even", "--sms", "1"];
    let event = figures(&both);
    assert!(!std::path::Path::new(&path("c")).exists());
    let model = figures(&[&both[..], &["--on", "model"]].concat());
    assert_eq!(
        std::fs::read(path("c")).unwrap(),
        numbers(|i| 3.0 * f32::from(i))
    );
    for report in [&event, &model] {
        assert_eq!(report["programs"][0]["name"], "mine");
        assert_eq!(report["programs"][0]["verified"], Value::Null);
        assert!(
            number(&report["programs"][0]["alone_ns"]) > 100.0,
            "{report}"
        );
    }
}

#[test]
fn a_trace_runs_on_both_executors_and_takes_as_long_as_it_did() {
    let traces = Traces::new();
    // The GPU filled three times, half of an SM, and one launch behind the other in its stream.
    let launches = [
        Launch::new(3, 48, 0, 600),
        Launch::new(4, 1, 1000, 200),
        Launch::new(4, 16, 1100, 300),
    ];
    let trace = traces.write("one.trace", &launches);
    let sms = SMS.to_string();
    for on in ["event", "model"] {
        let of = |workload: &str| {
            let report = figures(&words(&format!(
                "{workload} --policy fifo --on {on} --gpu v100 --sms {sms}"
            )));
            report["programs"][0].clone()
        };
        let program = of(&trace);
        assert_eq!(
            (&program["name"], &program["launches"]),
            (&json!("one"), &json!(3))
        );
        close(number(&program["turnaround_ns"]["max"]), 600_000.0);
        // Recorded at 1.1 ms, it waits until 1.2 ms; closed, it follows at once.
        close(
            number(&program["alone_ns"]),
            (600_000.0 + 200_000.0 + 400_000.0) / 3.0,
        );
        let program = of(&format!("{trace},arrivals=closed"));
        close(number(&program["alone_ns"]), 1_100_000.0 / 3.0);
    }
}

#[test]
fn programs_that_do_not_get_in_each_others_way_are_told_of() {
    let traces = Traces::new();
    let short = Launch::new(0, 16, 0, 100);
    let one = traces.write("one", &[short]);
    let late = traces.write("late", &[short, Launch::new(0, 16, 10_000, 100)]);
    let stderr = |arguments: &[&str]| {
        let gpu = ["sim", arguments[0], "--policy", "fifo", "--gpu", "v100"];
        let ran = gridmux(gpu.iter().chain(&arguments[1..]));
        ran.succeeded().stderr
    };
    let apart = "no two programs had blocks on the GPU at the same time";
    let workload = format!("late={late},at=1ms");
    let told = stderr(&["mix", &one, &workload]);
    assert!(told.contains(apart) && told.contains("--sms"), "{told}");
    let beside = "no program was slowed down by another";
    for command in ["mix", "trace"] {
        let told = stderr(&[command, &one, &late]);
        assert!(told.contains(beside) && told.contains("--sms"), "{told}");
        // On as many SMs as were recorded one of them waits, and a program alone meets nobody.
        assert_eq!(stderr(&[command, "--sms", "2", &one, &late]), "");
        assert_eq!(stderr(&[command, &one]), "");
    }
}

#[test]
fn what_an_executor_does_not_hold_of_a_policy_is_told() {
    for (policy, on, is_told) in [
        ("smk-pw", "event", true),
        ("smk-pw", "model", false),
        ("smk-p", "event", false),
    ] {
        let line = format!("sim mix vecadd,size=tiny --policy {policy} --on {on} --sms 1");
        let told = typed(&line).succeeded().stderr;
        let note =
            "note: issue quotas are not enforced on event; `gridmux sim mix --on model` does";
        assert_eq!(told.contains(note), is_told, "{policy} on {on}: {told}");
    }
}

#[test]
fn text_fits_a_terminal() {
    let ran = gridmux(words(
        "sim mix a_name_that_is_longer_than_a_table_has_room_for=lbm,launches=1000 \
         pointer_chase,at=50% --policy smk-p",
    ));
    let text = ran.succeeded().stdout;
    for text in text.lines() {
        assert!(text.chars().count() <= 80, "{text:?}");
    }
    for word in [
        "SLOWDOWN",
        "worst_antt",
        "least slowdown over greatest",
        "timeline",
        "█",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn what_cannot_be_meant_is_wrong_usage() {
    for (arguments, due) in [
        (&["matmull"][..], "no workload \"matmull\""),
        (&["matmull"], "ercbench:jpeg-d"),
        (
            &["matmul,weight=0"],
            "`weight=0`: give a whole number from 1 to 1000",
        ),
        (&["matmul,weight=heavy"], "`weight=heavy`"),
        (&["matmul,wieght=1"], "no key `wieght`; keys are launches"),
        (&["a=k.ptx,entry=k,grid=0,block=32"], "`grid=0`"),
        (&["matmul,at=50%"], "\"matmul\" is the first workload"),
        (&["matmul", "matmul"], "give one of them another name"),
        (
            &["ercbench:sad", "--on", "model"],
            "sad: the code of ERCBench's kernels is not here",
        ),
    ] {
        let ran = run(&[arguments, &["--policy", "fifo"]].concat());
        ran.failed(2, &[due]);
    }
    let ran = run(&["matmul", "--policy", "best"]);
    ran.failed(2, &["best", "srtf"]);
}

#[test]
fn what_cannot_run_is_told_with_its_name() {
    let traces = Traces::new();
    let launch = line(Launch::new(0, 16, 0, 100));
    let mut failed = launch.clone();
    failed["failed"] = true.into();
    let mut large = launch.clone();
    large["shared_bytes"] = 65_536.into();
    let process = process();
    let none = traces.text("none", &format!("{process}\n{failed}\n"));
    let foreign = traces.text("foreign", "a,b\n1,2\n");
    let large = traces.text("large", &format!("{process}\n{large}\n"));
    let ptx = workload_ptx("vecadd");
    let entry = gridmux_workloads::by_name("vecadd").unwrap().entry;
    let args = "arg=u64=0,arg=u64=0,arg=u64=0,arg=u32=0";
    let kernel = |rest: &str| format!("k={ptx},entry={entry},grid=1,{rest},{args}");
    let wide = kernel("block=2048");
    let shared = kernel("block=32,shared=1000000");
    let nameless = format!("{ptx},entry=nope,grid=1,block=1");
    // What no kernel may ask of the GPU is wrong usage, and found before any file is read.
    for (workload, code, due) in [
        (&*none, 1, "none holds no launch that ended in good order"),
        (&foreign, 1, "foreign, line 1: no JSON"),
        ("/nonexistent/trace", 1, "/nonexistent/trace"),
        (&wide, 2, "block [2048, 1, 1] is outside the limits"),
        (&shared, 2, "1000000 bytes of shared memory were asked for"),
        (&nameless, 1, "has no kernel \"nope\""),
        (
            "/nonexistent/k.ptx,entry=k,grid=1,block=1",
            1,
            "/nonexistent/k.ptx",
        ),
    ] {
        for on in ["event", "model"] {
            let ran = run(&[workload, "--policy", "fifo", "--on", on]);
            ran.failed(code, &[due]);
        }
    }
    // The block fits an SM of the GPU on which it was recorded, and none of a GTX 480.
    for on in ["event", "model"] {
        let on_gpu = |gpu| run(&[&large, "--policy", "fifo", "--on", on, "--gpu", gpu]);
        on_gpu("v100").succeeded();
        let ran = on_gpu("gtx480");
        let error = ran.json_error();
        assert!(error.contains("65536 bytes of shared memory"), "{error}");
        assert!(ran.hint().contains("--gpu"), "{}", ran.stdout);
    }
}

/// Runs two programs of `spin` on two SMs of a GTX 480, whose threads count up to a number.
fn spins(folder: &std::path::Path, programs: [&str; 2], options: &str) -> Ran {
    let file = kernels(folder);
    let program = |name: char, rest: &str| format!("{name}={file},entry=spin,{rest}");
    let [a, b] = [program('a', programs[0]), program('b', programs[1])];
    gridmux(words(&format!(
        "-j sim mix {a} {b} --gpu gtx480 --sms 2 {options}"
    )))
}

#[test]
fn an_oracle_knows_how_long_a_program_takes_that_fills_no_wave() {
    let folder = tempfile::tempdir().unwrap();
    let programs = [
        "grid=1,block=32,arg=u32=5000",
        "grid=24,block=256,arg=u32=100",
    ];
    for on in ["event", "model"] {
        let slowdowns = |policy: &str| {
            let ran = spins(
                folder.path(),
                programs,
                &format!("--policy {policy} --on {on}"),
            );
            let report = ran.succeeded().json();
            [0, 1].map(|at| number(&report["programs"][at]["slowdown"]))
        };
        let [long, short] = slowdowns("sjf");
        assert!(long < 1.5 && short < 1.1, "{on}: {long} {short}");
        let [long, short] = slowdowns("ljf");
        assert!(long < 1.1 && short > 3.0, "{on}: {long} {short}");
    }
}

#[test]
fn programs_of_which_an_sm_holds_one_at_a_time_all_end() {
    let folder = tempfile::tempdir().unwrap();
    let whole = ["grid=4,block=1024,arg=u32=50"; 2];
    for policy in ["smk-p-strict", "smk-pw"] {
        for on in ["event", "model"] {
            let ran = spins(
                folder.path(),
                whole,
                &format!("--policy {policy} --on {on}"),
            );
            let report = ran.succeeded().json();
            let alone = number(&report["programs"][0]["alone_ns"]);
            // One after the other, a grace of 20 us between them.
            let limit = 2.0 * alone + 40_000.0;
            assert!(
                number(&report["makespan_ns"]) < limit,
                "{policy}, {on}: {report}"
            );
        }
    }
}

#[test]
fn a_profile_of_a_file_that_blocks_contradict_is_dropped_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles").to_str().unwrap().to_owned();
    let line = format!("ercbench:nlm2 ercbench:jpeg-d --policy sjf --gpu gtx480 --profiles {file}");
    let ran = || run(&words(&line)).succeeded();
    assert!(!ran().stderr.contains("was dropped"));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &mut lines[1..] {
        line["block_ns"] = json!(1.0);
        line["blocks"] = json!(1 << 20);
    }
    let forged: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // The header stays as it was, from which files of profiles are known.
    let header = text.lines().next().unwrap();
    let rest = forged.split_once('\n').unwrap().1;
    std::fs::write(&file, format!("{header}\n{rest}")).unwrap();
    let told = ran().stderr;
    for name in ["nlm2", "jpeg-d"] {
        let due = format!("note: the profile of {name} in {file} was dropped");
        assert!(told.contains(&due), "{told}");
    }
    assert!(!ran().stderr.contains("was dropped"), "it was learnt anew");
}

#[test]
fn on_the_model_ipc_and_energy_are_told_by_program() {
    let line = "a=vecadd,size=tiny b=matmul,size=tiny --policy even --sms 2 --on";
    let report = figures(&words(&format!("{line} model")));
    for program in report["programs"].as_array().unwrap() {
        assert!(number(&program["ipc"]) > 0.01, "{program}");
        assert!(number(&program["energy_microjoules"]) > 0.1, "{program}");
    }
    let text = gridmux(words(&format!("sim mix {line} model")))
        .succeeded()
        .stdout;
    assert!(
        text.contains("PROGRAM  IPC") && text.contains("uJ"),
        "{text}"
    );
    let report = figures(&words(&format!("{line} event")));
    assert_eq!(report["programs"][0]["ipc"], Value::Null);
}

#[test]
fn a_slowdown_beyond_the_bound_of_gridmux_is_told_of() {
    let line = "a=vecadd,launches=900,class=latency b=sad,launches=60,class=batch --policy gridmux";
    let ran = run(&words(line)).succeeded();
    let report = ran.json();
    let beyond = report["programs"].as_array().unwrap().iter();
    let beyond = beyond.filter(|program| number(&program["slowdown"]) > 8.8);
    for program in beyond.clone() {
        assert_eq!(program["is_beyond_bound"], true);
        let name = program["name"].as_str().unwrap();
        assert!(
            ran.stderr.contains(&format!("note: {name}: slowed down")),
            "{}",
            ran.stderr
        );
    }
    assert!(
        beyond.count() > 0,
        "the example has none any more: {report}"
    );
}

#[test]
fn figures_beyond_their_ideals_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let programs = ["grid=1,block=32,arg=u32=50"; 2];
    let ran = spins(folder.path(), programs, "--policy fifo").succeeded();
    assert!(!ran.stderr.contains("quicker"), "{}", ran.stderr);
    let ran = run(&words("matmul spmv,at=50% --policy srtf")).succeeded();
    let report = ran.json();
    assert!(number(&report["metrics"]["stp"]) > 2.004, "{report}");
    let due = "hint: an STP above the number of programs";
    assert!(ran.stderr.contains(due), "{}", ran.stderr);
}

#[test]
fn programs_that_fill_the_gpu_and_miss_each_other_are_not_told_to_try_fewer_sms() {
    let folder = tempfile::tempdir().unwrap();
    // An SM holds one block: the last one of the first program leaves the other SM to the second program.
    let programs = [
        "grid=13,block=1024,arg=u32=500",
        "grid=11,block=1024,arg=u32=500,at=95%",
    ];
    let ran = spins(folder.path(), programs, "--policy fifo").succeeded();
    let told = &ran.stderr;
    assert!(told.contains("let them arrive closer together"), "{told}");
    assert!(!told.contains("--sms"), "{told}");
}

#[test]
fn one_sm_cannot_be_divided_and_that_is_told() {
    for policy in ["spatial", "warped-slicer", "smk-pw"] {
        let stderr = |sms: u16| {
            let line = format!("a=vecadd,size=tiny b=sad,size=tiny --policy {policy} --sms {sms}");
            run(&words(&line)).succeeded().stderr
        };
        let due = "note: one SM cannot be divided among 2 programs";
        assert!(stderr(1).contains(due), "{policy}");
        assert!(!stderr(2).contains("cannot be divided"), "{policy}");
    }
}

#[test]
fn profiles_are_kept_and_used_by_the_next_mix_and_bad_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles").to_str().unwrap().to_owned();
    let arguments =
        format!("ercbench:nlm2 ercbench:jpeg-d --policy sjf --gpu gtx480 --profiles {file}");
    let arguments = words(&arguments);
    let turnaround = |report: &Value| number(&report["programs"][1]["slowdown"]);
    let first = figures(&arguments);
    let kept = json_of(["-j", "policy", "profiles", &file]);
    assert_eq!(kept["profiles"].as_array().map(Vec::len), Some(2), "{kept}");
    assert_eq!(kept["device"]["name"], "event executor gtx480");
    // Who is not known goes in order of arrival; who is known to be short goes first.
    let rights = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    rights(0o646);
    let second = figures(&arguments);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644, "as many read it, and only its owner writes it");
    let slowdowns = [turnaround(&first), turnaround(&second)];
    assert!(slowdowns[0] > 5.0 && slowdowns[1] < 1.1, "{slowdowns:?}");

    let text = std::fs::read_to_string(&file).unwrap();
    let refused = |arguments: &[&str], part: &str| {
        run(arguments).failed(1, &[&file, part]);
    };
    let more: Vec<&str> = arguments.iter().copied().chain(["--sms", "3"]).collect();
    refused(&more, "15 SMs");
    for (bad, part) in [
        (&text[..text.len() - 1], "line 3: the line is cut off"),
        (text.lines().next().unwrap(), "line 1"),
        ("", "line 1: the file is empty"),
    ] {
        std::fs::write(&file, bad).unwrap();
        refused(&arguments, part);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), bad, "it is left");
    }
}

/// A kernel that does not end, one that does nothing, and one that the model cannot run.
const KERNELS: &str = include_str!("sim_mix_kernels.ptx");

fn kernels(folder: &std::path::Path) -> String {
    let file = folder.join("kernels.ptx");
    std::fs::write(&file, KERNELS).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_kernel_that_does_not_end_is_given_up_at_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let file = kernels(folder.path());
    let endless = format!("{file},entry=endless,grid=1,block=32");
    for on in ["model", "event"] {
        let ran = gridmux(words(&format!(
            "-j sim mix {endless} vecadd,size=tiny --policy fifo --on {on} --sms 1 --budget 200000"
        )));
        ran.failed(1, &["200000 cycles"]);
        assert!(
            ran.json_error().starts_with("kernels"),
            "{on}: {}",
            ran.stdout
        );
        assert!(ran.hint().contains("--budget"), "{on}: {}", ran.stdout);
    }
}

#[test]
fn a_kernel_that_does_nothing_is_not_slowed_down() {
    let folder = tempfile::tempdir().unwrap();
    let file = kernels(folder.path());
    for on in ["model", "event"] {
        let empty = format!("{file},entry=empty,grid=1,block=32");
        let report = json_of(["-j", "sim", "mix", &empty, "--policy", "fifo", "--on", on]);
        let slowdown = report["programs"][0]["slowdown"].as_f64().unwrap();
        assert!((slowdown - 1.0).abs() < 1e-9, "{on}: {report}");
        let stp = report["metrics"]["stp"].as_f64().unwrap();
        assert!((stp - 1.0).abs() < 1e-9, "{on}: {report}");
    }
}

#[test]
fn a_kernel_that_cannot_run_leaves_the_others_of_its_file_usable() {
    let folder = tempfile::tempdir().unwrap();
    let file = kernels(folder.path());
    let kernel = format!("-j sim kernel {file} --grid 1 --block 32 --entry");
    for form in ["whole", "slice"] {
        typed(&format!("{kernel} empty --form {form}")).succeeded();
    }
    typed(&format!("{kernel} bad")).failed(1, &["frobnicate"]);
}

#[test]
fn what_cannot_be_written_is_found_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::fs::write(folder.path().join("known"), "").unwrap();
    std::os::unix::fs::symlink(folder.path().join("known"), &link).unwrap();
    let ptx = workload_ptx("vecadd");
    let buffer = format!("{ptx},entry=vecadd,grid=1,block=32,arg=out=64:/nonexistent/out");
    let link = link.to_str().unwrap();
    for (more, due) in [
        (
            vec!["matmul", "--profiles", "/nonexistent/profiles"],
            "/nonexistent",
        ),
        (vec!["matmul", "--profiles", link], "is a link"),
        (vec![buffer.as_str(), "--on", "model"], "/nonexistent"),
    ] {
        let ran = gridmux(["-j", "sim", "mix", "--policy", "fifo"].iter().chain(&more));
        ran.failed(1, &[due]);
    }
    assert!(std::path::Path::new(link).is_symlink());
}

#[test]
fn an_output_takes_the_place_of_nothing_that_the_command_needs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (ptx, out, known) = (path("k.ptx"), path("out"), path("known"));
    std::fs::copy(workload_ptx("vecadd"), &ptx).unwrap();
    let to = |name: &str, file: &str| {
        format!("{name}={ptx},entry=vecadd,grid=1,block=32,arg=out=64:{file}")
    };
    let dotted = format!("{}/./k.ptx", folder.path().display());
    for (workloads, due) in [
        (vec![to("a", &ptx)], "is the kernel of \"a\", too"),
        (vec![to("a", &dotted)], "is the kernel of \"a\", too"),
        (
            vec![to("a", &out), to("b", &out)],
            "an output of \"b\", is an output of \"a\", too",
        ),
        (vec![to("a", &known)], "is the profiles, too"),
    ] {
        let workloads = workloads.iter().map(String::as_str);
        let options = ["--policy", "fifo", "--on", "model", "--profiles", &known];
        let arguments: Vec<&str> = workloads.chain(options).collect();
        let ran = run(&arguments);
        ran.failed(2, &[due]);
    }
    assert_eq!(
        std::fs::read(&ptx).unwrap(),
        std::fs::read(workload_ptx("vecadd")).unwrap()
    );
}

#[test]
fn policies_that_know_every_runtime_know_those_of_the_programs_alone() {
    let slowdowns = |policy: &str| {
        let mix = format!("ercbench:nlm2 ercbench:jpeg-d --gpu gtx480 --policy {policy}");
        let report = figures(&words(&mix));
        [0, 1].map(|program| number(&report["programs"][program]["slowdown"]))
    };
    let [_, short] = slowdowns("sjf");
    let [long, _] = slowdowns("ljf");
    assert!(short < 1.1, "the shortest goes first: {short}");
    assert!(long < 1.1, "the longest goes first: {long}");
    let [_, short] = slowdowns("srtf-zero");
    assert!(short < 1.1, "nothing is sampled: {short}");
}

#[test]
fn times_that_no_run_lasts_to_are_blamed_on_the_workload() {
    let traces = Traces::new();
    let launches = [
        Launch::new(0, 8, 0, 10),
        Launch::new(1, 8, 15_000_000_000_000_000, 10),
    ];
    let late = traces.write("late", &launches);
    for on in ["event", "model"] {
        let ran = gridmux(words(&format!(
            "-j sim mix {late} --policy srtf --gpu v100 --sms 2 --on {on}"
        )));
        assert_eq!(ran.code, Some(1), "{on}: {}", ran.stdout);
        let error = ran.json_error();
        assert!(
            error.starts_with("late: a launch would arrive at 15000000000000000000 ns"),
            "{on}: {error}"
        );
    }
}
