//! What an operator does on the first day: the version, completions and manual pages, a configuration to begin with,
//! and a check of it.

use crate::command::{checked, gridmux, json_of, text_of, words};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes a configuration whose run directory lies beside it, and returns its path.
fn configuration(folder: &Path, text: &str) -> String {
    let file = folder.join("gridmux.toml");
    let run_dir = folder.join("run");
    let text = format!("schema_version = 1\nrun_dir = {run_dir:?}\n{text}");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Returns the verdict on a key, with what is said of it.
fn verdict(report: &Value, key: &str) -> (String, String) {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|found| found["key"] == key);
    let found = found.unwrap_or_else(|| panic!("nothing about {key}: {report}"));
    let text = |name: &str| found[name].as_str().unwrap().to_owned();
    (text("verdict"), text("message"))
}

#[test]
fn the_version_says_which_commit_it_is() {
    let ran = gridmux(["--version"]).succeeded();
    let version = env!("CARGO_PKG_VERSION");
    let git = Command::new("git")
        .args(["log", "-1", "--format=%h %cs", "--abbrev=10"])
        .output();
    let expected = match git {
        Ok(output) if output.status.success() => {
            let commit = String::from_utf8(output.stdout).unwrap();
            format!("gridmux {version} ({})\n", commit.trim())
        }
        _ => format!("gridmux {version}\n"),
    };
    assert_eq!(ran.stdout, expected);
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text_of(["completions", shell]);
        for word in ["gridmux", "tenant", "run-dir"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
        assert!(
            !script.contains("device-host"),
            "{shell} offers what is hidden"
        );
    }
    let script = text_of(["completions", "bash"]);
    let completed = |words: &[&str]| {
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let (all, place) = (words.join(" "), words.len() - 1);
        let complete = format!(
            "COMP_WORDS=({all}); COMP_CWORD={place}; _gridmux gridmux '{last}' {before}; echo ${{COMPREPLY[@]}}"
        );
        let mut bash = Command::new("bash");
        let output = bash.args(["-c", &format!("{script}\n{complete}")]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        text.trim().to_owned()
    };
    for (words, due) in [
        (&["gridmux", "pol"][..], "policy"),
        (&["gridmux", "policy", "set", "acc"], "accelos"),
        (&["gridmux", "sim", "kernel", "--gpu", "k"], "k20m"),
        (&["gridmux", "ptx", "rewrite", "--form", "worke"], "worker"),
        (&["gridmux", "tenant", "set", "--class", "b"], "batch"),
        (&["gridmux", "workload", "run", "vec"], "vecadd"),
        (&["gridmux", "workload", "run", "--size", "t"], "tiny"),
    ] {
        assert_eq!(completed(words), due, "{words:?}");
    }
    let ran = gridmux(["completions", "tcsh", "-j"]);
    ran.failed(2, &["tcsh"]);
}

#[test]
fn manual_pages_are_not_written_through_links() {
    let folder = tempfile::tempdir().unwrap();
    let (precious, pages) = (folder.path().join("precious"), folder.path().join("man1"));
    fs::write(&precious, "mine").unwrap();
    fs::create_dir(&pages).unwrap();
    std::os::unix::fs::symlink(&precious, pages.join("gridmux.1")).unwrap();
    gridmux(["man", pages.to_str().unwrap()]).succeeded();
    assert_eq!(fs::read_to_string(precious).unwrap(), "mine");
    let page = fs::symlink_metadata(pages.join("gridmux.1")).unwrap();
    assert!(page.is_file());
}

#[test]
fn every_command_has_a_manual_page() {
    let page = text_of(["man"]);
    assert!(page.contains(".TH gridmux 1"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("man1");
    let report = gridmux(["man", "-j", below.to_str().unwrap()]);
    let report = report.succeeded().json();
    let pages = report["pages"].as_array().unwrap().iter();
    let pages: Vec<&str> = pages.map(|page| page.as_str().unwrap()).collect();
    for name in words("gridmux.1 gridmux-serve.1 gridmux-sim-mix.1 gridmux-tenant-show.1") {
        assert!(pages.contains(&name), "{pages:?}");
    }
    for name in &pages {
        assert!(
            !name.contains("device-host") && !name.contains("keeper"),
            "{name} is hidden"
        );
        let page = fs::read_to_string(below.join(name)).unwrap();
        let title = name.trim_end_matches(".1");
        assert!(page.contains(&format!(".TH {title} 1")), "{name}: {page}");
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
        // Every page that it refers to is there.
        let plain = page.replace('\\', "");
        for (at, _) in plain.match_indices("(1)") {
            let begin = plain[..at]
                .rfind(char::is_whitespace)
                .map_or(0, |at| at + 1);
            let other = format!("{}.1", &plain[begin..at]);
            assert!(pages.contains(&&*other), "{name} refers to {other}");
        }
    }
    let written = fs::read_dir(&below).unwrap().count();
    assert_eq!(written, pages.len());
    let ran = gridmux(["man", "/dev/null/man1", "-j"]);
    ran.failed(1, &["/dev/null/man1"]);
}

#[test]
fn the_example_is_a_configuration_that_passes_the_check() {
    let text = text_of(["serve", "--example-config"]);
    let json = json_of(["serve", "--example-config", "-j"]);
    assert_eq!(json["text"], text);
    assert_eq!(json["defaults"]["device"]["kind"], "model:h200");
    let folder = tempfile::tempdir().unwrap();
    let report = checked(folder.path(), &text);
    assert_eq!(report["ok"], true, "{report}");
    let file = folder.path().join("gridmux.toml");
    assert_eq!(report["file"], file.to_str().unwrap());
    assert_eq!(verdict(&report, "device.kind").0, "ok");
    let run_dir = folder.path().join("run");
    assert!(!run_dir.exists(), "a check makes nothing");
}

#[test]
fn a_check_names_each_thing_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = configuration(
        folder.path(),
        "policy = \"kernelet\"\n[device]\nkind = \"cuda:0\"\n\
         [profiles]\nfile = \"/nonexistent/deep/profiles\"\n\
         [[tenant]]\nname = \"a\"\nuser = \"no-such-user\"\n[[tenant]]\nname = \"b\"\ngroup = \"no-such-group\"\n\
         [[tenant]]\nname = \"c\"\ncgroup = \"/no-such.slice\"\n",
    );
    let ran = gridmux(["serve", "--check", "-j", "--config", &file]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    let report = ran.json();
    assert_eq!(report["ok"], false);
    for (key, expected, word) in [
        ("tenant.a.user", "error", "no-such-user"),
        ("tenant.b.group", "error", "no-such-group"),
        ("tenant.c.cgroup", "warning", "/no-such.slice"),
        ("profiles.file", "warning", "/nonexistent"),
        ("policy", "warning", "samples"),
    ] {
        let (found, message) = verdict(&report, key);
        assert_eq!(found, expected, "{key}: {message}");
        assert!(message.contains(word), "{key}: {message}");
    }
    if !Path::new("/dev/nvidiactl").exists() {
        assert_eq!(verdict(&report, "device.kind").0, "error");
    }
    let text = gridmux(["serve", "--check", "--config", &file]).stdout;
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(text.contains("tenant.a.user"), "{text}");
}

#[test]
fn a_check_refuses_what_the_service_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let file = configuration(folder.path(), "polcy = \"fifo\"\n");
    let ran = gridmux(["serve", "--check", "-j", "--config", &file]);
    ran.failed(1, &["polcy", "gridmux.toml"]);
    // Somebody made the folder before, and put something there.
    let run_dir = folder.path().join("run");
    fs::create_dir(&run_dir).unwrap();
    fs::write(run_dir.join("gridmux.sock"), "mine").unwrap();
    let file = configuration(folder.path(), "[[tenant]]\nname = \"a\"\n");
    let ran = gridmux(["serve", "--check", "-j", "--config", &file]);
    assert_eq!(ran.code, Some(1));
    let (found, message) = verdict(&ran.json(), "run_dir");
    assert_eq!(found, "error");
    assert!(message.contains("no socket"), "{message}");
}
