//! Every command of the README: it is run here, with its paths adapted, or another test is named that does.
//!
//! A command that is neither run nor named fails the test, and so does a name that is no longer needed.

mod command;

use command::documents::{commands, repository, shell};
use command::running::Running;
use command::{checked, gridmux, workload_ptx};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Commands that are not run here, by how they begin, and why not.
const ELSEWHERE: [(&str, &str); 15] = [
    (
        "cargo xtask demo",
        "takes minutes; tests/tests/repeatable.rs runs the demo",
    ),
    ("cargo xtask test", "runs this test, too"),
    (
        "cargo build --release",
        "`cargo xtask test --clients` builds the same",
    ),
    ("python3 -m venv", "`cargo xtask test --clients` makes it"),
    (
        "target/release/gridmux run -- venv/bin/python",
        "`cargo xtask test --clients` runs Python programs so",
    ),
    (
        "gcc -I venv/",
        "`cargo xtask test --clients` compiles C programs so",
    ),
    (
        "target/release/gridmux run -- ./my_program",
        "`cargo xtask test --clients` runs C programs so",
    ),
    (
        "gridmux run --run-dir",
        "cli/tests/run.rs runs programs on a running service",
    ),
    ("install target/release/gridmux", "changes the machine"),
    (
        "install -D -m 644 target/release/libcuda.so",
        "changes the machine; cli/tests/run.rs runs a program that is installed so",
    ),
    (
        "install -m 644 packaging/gridmux.service",
        "changes the machine; cli/tests/packaging.rs has systemd read it",
    ),
    (
        "install -D -m 644 packaging/sysusers.conf",
        "changes the machine",
    ),
    ("systemd-sysusers", "changes the machine"),
    ("systemctl enable --now gridmux", "needs a running systemd"),
    (
        "gridmux serve --run-dir /tmp/gridmux --tenant me",
        "started before the others, because it goes on",
    ),
];

/// Returns what stands for what in commands that are run: paths of their own, and sizes that take no minutes.
fn adapted(command: &str, folder: &Path) -> String {
    let here = folder.display().to_string();
    let of_the_machine = ["gridmux serve --check"];
    let command = match of_the_machine.contains(&command) {
        true => format!("{command} --config /etc/gridmux/gridmux.toml --run-dir {here}/checked"),
        false => command.to_owned(),
    };
    let command = command
        .replace("/etc/gridmux", &format!("{here}/etc"))
        .replace("/tmp/gridmux", &format!("{here}/run"))
        .replace("lbm raytrace", "lbm,size=tiny raytrace,size=tiny");
    let command = match command.strip_suffix(" FILE") {
        Some(rest) => format!("{rest} {}", workload_ptx("vecadd")),
        None => command,
    };
    match command.starts_with("cargo ") {
        // Its paths are those of the repository.
        true => format!("cd {} && {command}", repository().display()),
        false => command,
    }
}

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).unwrap()
}

#[test]
fn every_command_is_run_or_another_test_runs_it() {
    let folder = tempfile::tempdir().unwrap();
    let run_dir = folder.path().join("run");
    let instance = format!("readme-{}", std::process::id());
    let service = [
        "-j",
        "serve",
        "--tenant",
        "me",
        "--sms",
        "2",
        "--instance",
        &instance,
        "--run-dir",
        run_dir.to_str().unwrap(),
    ];
    let mut service = Running::start(&service);
    service.next();
    let commands = commands(&readme());
    assert!(commands.len() > 25, "{commands:?}");
    let mut elsewhere = BTreeSet::new();
    for command in &commands {
        let found = ELSEWHERE
            .iter()
            .find(|(begin, _)| command.starts_with(begin));
        match found {
            Some((begin, why)) => {
                println!("not run here: {command} ({why})");
                elsewhere.insert(*begin);
            }
            None => {
                let is_ours = ["gridmux ", "cargo ", "mkdir "]
                    .iter()
                    .any(|begin| command.starts_with(begin));
                assert!(is_ours, "nobody runs `{command}`");
                shell(&adapted(command, folder.path()), folder.path());
            }
        }
    }
    let stale = ELSEWHERE
        .iter()
        .filter(|(begin, _)| !elsewhere.contains(begin));
    assert_eq!(stale.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
}

#[test]
fn the_commands_that_are_mentioned_exist() {
    let text = readme();
    let outside: String = text.split("```").step_by(2).collect();
    let spans = outside.split('`').skip(1).step_by(2);
    let mut seen = BTreeSet::new();
    for span in spans {
        let words: Vec<&str> = span.split_whitespace().collect();
        let is_name = |word: &&str| {
            !word.is_empty()
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                && !word.starts_with('-')
        };
        if words.first() == Some(&"gridmux") && words.len() > 1 {
            let command: Vec<&str> = words[1..]
                .iter()
                .copied()
                .take_while(is_name)
                .take(2)
                .collect();
            seen.insert(command);
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
    for mut command in seen {
        command.push("--help");
        let ran = gridmux(&command);
        assert_eq!(ran.code, Some(0), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn the_example_configuration_is_right_and_somebody_may_be_each_tenant() {
    let text = readme();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Another system may have no such user; the file of profiles is of this machine.
    let example = example
        .replace("user = \"www-data\"", "user = \"root\"")
        .replace("/var/lib/gridmux", folder.path().to_str().unwrap());
    let report = checked(folder.path(), &example);
    let findings = report["findings"].as_array().unwrap();
    let admin = findings.iter().find(|found| found["key"] == "tenant.admin");
    let admin = admin.unwrap()["message"].as_str().unwrap();
    assert!(admin.contains("for root"), "{admin}");
}
