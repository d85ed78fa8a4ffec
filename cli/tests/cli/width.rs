//! Everything that people read fits a terminal of 80 columns: the help and the tables of every command.

use crate::command::running::Service;
use crate::command::traces::{Launch, Traces};
use crate::command::{gridmux, json_of, text_of, words, workload_ptx};

/// Columns of a terminal.
const COLUMNS: usize = 80;

/// Columns that a terminal shows a line in.
fn columns(line: &str) -> usize {
    line.chars().fold(0, |columns, c| match c {
        '\t' => (columns / 8 + 1) * 8,
        _ => columns + 1,
    })
}

/// Runs a command for people, and checks what it prints; a figure that is as long as a name may be is no excuse.
fn check(arguments: &[&str]) -> String {
    let ran = gridmux(arguments);
    let ran = ran.succeeded();
    assert!(!ran.stdout.is_empty(), "{arguments:?} prints nothing");
    for line in ran.stdout.lines() {
        let columns = columns(line);
        assert!(
            columns <= COLUMNS,
            "{arguments:?}, {columns} columns: {line}"
        );
    }
    ran.stdout
}

/// Checks that a terminal does not break the example commands of a help text: each stands on a line, or goes on behind
/// a backslash.
fn check_examples(help: &str) {
    let is_example = |line: &str| line.starts_with("  gridmux ");
    for (line, next) in help.lines().zip(help.lines().skip(1)) {
        let goes_on = line.ends_with('\\');
        let is_broken = match (is_example(line), goes_on) {
            (_, true) => !next.starts_with("    "),
            (true, false) => {
                next.starts_with("  ") && !is_example(next) && !next.starts_with("  man ")
            }
            (false, false) => false,
        };
        assert!(
            !is_broken && line.trim() != "\\",
            "{line:?}, {next:?}: {help}"
        );
    }
}

/// Returns every command that `--help` shows, as its words.
fn commands() -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let report = gridmux(["man", "-j", folder.path().to_str().unwrap()]);
    let report = report.succeeded().json();
    let pages = report["pages"].as_array().unwrap().iter();
    let words = pages.map(|page| {
        let name = page.as_str().unwrap().trim_end_matches(".1");
        name.split('-').skip(1).map(ToOwned::to_owned).collect()
    });
    words.collect()
}

#[test]
fn the_help_of_every_command_fits() {
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    for words in commands {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        check_examples(&check(&arguments));
        let last = arguments.len() - 1;
        arguments[last] = "-h";
        check(&arguments);
    }
}

#[test]
fn the_tables_of_commands_without_a_service_fit() {
    check(&["workload", "list"]);
    check(&["policy", "list"]);
    check(&["sim", "gpus"]);
    check(&["sim", "gpu", "show", "gtx480"]);
    check(&["sim", "counters"]);
    let policies = json_of(["policy", "list", "-j"]);
    for policy in policies.as_array().unwrap() {
        check(&["policy", "show", policy["name"].as_str().unwrap()]);
    }
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("profiles");
    let profiles = profiles.to_str().unwrap();
    check(&words(&format!(
        "sim mix vecadd,size=tiny sixteen-letters-=matmul,size=tiny,launches=2 ercbench:sad --policy \
         gridmux --profiles {profiles}"
    )));
    check(&["policy", "profiles", profiles]);
    let vecadd = workload_ptx("vecadd");
    check(&words(&format!(
        "sim kernel --gpu gtx480 {vecadd} --entry vecadd --grid 1 --block 256 --arg out=1024:/dev/null \
         --arg out=1024:/dev/null --arg out=1024:/dev/null --arg u32=256"
    )));
    let traces = Traces::new();
    let one = traces.write("one", &[Launch::new(0, 64, 0, 5000)]);
    let other = traces.write("other", &[Launch::new(0, 64, 0, 5000)]);
    check(&words(&format!(
        "sim trace a-tenant-with-a-long-name={one} {other} --gpu v100 --sms 2"
    )));
    let example = text_of(["serve", "--example-config"]);
    let file = folder.path().join("gridmux.toml");
    std::fs::write(&file, example).unwrap();
    let run_dir = folder.path().join("run");
    let [file, run_dir] = [&file, &run_dir].map(|path| path.to_str().unwrap());
    check(&["serve", "--check", "--config", file, "--run-dir", run_dir]);
}

#[test]
fn what_is_said_of_ptx_fits_and_so_does_rewritten_ptx() {
    for workload in gridmux_workloads::workloads() {
        let file = workload_ptx(workload.name);
        check(&["ptx", "check", &file]);
        for form in gridmux_ptx::forms::Form::ALL {
            check(&["ptx", "rewrite", "--form", form.name(), &file]);
        }
    }
}

#[test]
fn a_replay_of_long_names_and_large_figures_fits() {
    let traces = Traces::new();
    let many: Vec<Launch> = (0..20)
        .map(|n| Launch::new(0, 64, n * 12_345, 5_000))
        .collect();
    let sources = ["a", "b", "c"].map(|letter| {
        let file = traces.write(letter, &many);
        format!("{}={file}", letter.repeat(32))
    });
    let options = ["--gpu", "v100", "--sms", "2", "--policy", "fifo"];
    let sources = sources.each_ref().map(String::as_str);
    check(&[&["sim", "trace"][..], &sources, &options].concat());
}

#[test]
fn the_tables_of_a_service_fit() {
    let long = "a".repeat(32);
    let service = Service::start_with("width", &["--tenant", &format!("{long}:1000:latency")]);
    let folder = service.run_dir.to_str().unwrap();
    let socket = service.socket();
    for tenant in ["first", &long] {
        let ran = gridmux(words(&format!(
            "workload run vecadd --size tiny --socket {socket} --tenant {tenant}"
        )));
        ran.succeeded();
    }
    check(&["tenant", "list", "--run-dir", folder]);
    check(&["tenant", "show", "--run-dir", folder]);
    check(&["tenant", "show", &long, "--why", "--run-dir", folder]);
    check(&["top", "--once", "--interval", "0.1", "--run-dir", folder]);
    check(&["device", "show", "--run-dir", folder]);
    check(&["kernel", "show", "--run-dir", folder]);
    check(&["plan", "show", "--run-dir", folder]);
    check(&["policy", "show", "--run-dir", folder]);
    let text = check(&["latency", "--run-dir", folder]);
    assert!(text.contains(&long), "{text}");
}
