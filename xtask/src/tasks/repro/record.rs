//! `repro record`: traces of the clients in `tests/clients`, for `repro traces`.
//!
//! Each client runs under `gridmux run --timed --record`. What a replay does not read, and launches beyond a number,
//! are left out, so that the traces are small enough to be kept in `repro/data/traces`.

use crate::setup::{self, Need};
use crate::tasks::test::clients;
use crate::{process, repo};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A trace's name, the client's program with its arguments, and how many launches are kept.
type Recorded = (&'static str, &'static [&'static str], usize);

const TRACES: [Recorded; 3] = [
    ("numba-training", &["numba/training.py"], 240),
    ("numba-tests", &["suite.py", "numba"], usize::MAX),
    ("triton-tests", &["suite.py", "triton"], usize::MAX),
];

/// Records every trace anew.
///
/// # Errors
/// A client cannot be installed or run.
pub(super) fn run() -> Result<()> {
    setup::ensure(&[Need::Gcc, Need::PythonVenv, Need::PythonHeaders])?;
    let environment = clients::environment()?;
    let build = ["--package", "gridmux", "--package", "gridmux-cuda"];
    process::aloud(repo::cargo("build").args(build))?;
    let folder = repo::target().join("repro/record");
    fs::create_dir_all(&folder)?;
    for (name, words, most) in TRACES {
        let whole = folder.join(format!("{name}.jsonl"));
        let caches = repo::target().join("clients/caches");
        let mut command = Command::new(repo::target().join("debug/gridmux"));
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TRITON_CACHE_DIR", caches.join("triton"))
            .env("NUMBA_CACHE_DIR", caches.join("numba"))
            .args(["run", "--timed", "--record"])
            .arg(&whole)
            .arg("--")
            .arg(environment.join("bin/python"))
            .arg(repo::root().join("tests/clients").join(words[0]))
            .args(&words[1..]);
        process::aloud(&mut command)?;
        let kept = repo::root().join(format!("repro/data/traces/{name}.jsonl"));
        fs::write(&kept, shortened(&whole, most)?)
            .with_context(|| format!("cannot write {}", repo::shown(&kept)))?;
        eprintln!("recorded {}", repo::shown(&kept));
    }
    Ok(())
}

/// Returns a trace without sizes of arguments, with so many launches at most, in order of submission.
fn shortened(file: &Path, most: usize) -> Result<String> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let lines = lines.collect::<Result<Vec<Value>, _>>()?;
    let (processes, mut launches): (Vec<Value>, Vec<Value>) = lines
        .into_iter()
        .partition(|line| line.get("trace").is_some());
    launches.sort_by_key(|launch| launch["submit_ns"].as_u64());
    launches.truncate(most);
    let mut text = String::new();
    for mut line in processes.into_iter().chain(launches) {
        if let Some(members) = line.as_object_mut() {
            members.remove("arguments");
        }
        text += &line.to_string();
        text.push('\n');
    }
    Ok(text)
}
