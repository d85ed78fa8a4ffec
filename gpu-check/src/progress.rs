//! What a run says while it goes on: findings and ends of parts as lines of JSON on stdout, and how it goes on stderr.

use crate::document::Document;
use crate::finding::{End, Finding, PartReport};
use crate::lab::Scale;
use serde_json::json;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

/// Hears of a part's findings as they come.
pub type Each<'a> = &'a mut dyn FnMut(&Finding) -> anyhow::Result<()>;

/// Runs parts, which are given by name and by what they find out, one behind another; says what they find out, leaves
/// the document in a file, at the beginning and anew behind each part, and says it as the last line. Returns whether
/// all is well.
///
/// # Errors
/// The first one of `run`, or what is said cannot be written.
pub fn follow(
    scale: Scale,
    parts: &[(&'static str, &'static str)],
    out: Option<&Path>,
    mut run: impl FnMut(usize, Each<'_>) -> anyhow::Result<PartReport>,
) -> anyhow::Result<bool> {
    let leave = |document: &Document| out.map_or(anyhow::Ok(()), |path| document.write(path));
    // A part that is still to come stands there as one that was not begun.
    let to_come = parts.iter().map(|(name, _)| PartReport::not_begun(name));
    let mut document = Document::new(scale.name(), to_come.collect());
    // At once, so that a path that cannot be written to ends the run before minutes are spent.
    leave(&document)?;
    for (at, (name, about)) in parts.iter().enumerate() {
        eprintln!("{name}: {about}");
        let report = run(at, &mut |finding| say_finding(name, finding))?;
        say_part(&report)?;
        document.set(at, report);
        leave(&document)?;
    }
    say(serde_json::to_string(&document)?)?;
    Ok(document.passed)
}

/// Prints a line to stdout.
///
/// # Errors
/// The system call's, where `println!` would panic.
pub fn say(line: impl Display) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Prints a finding, and a failed check to stderr as well.
fn say_finding(part: &str, finding: &Finding) -> anyhow::Result<()> {
    say(json!({"part": part, "finding": finding}))?;
    if let Finding::Check {
        name,
        passed: false,
        detail,
    } = finding
    {
        eprintln!("{part}: FAILED {name}: {detail}");
    }
    Ok(())
}

/// Prints how a part has ended.
fn say_part(report: &PartReport) -> anyhow::Result<()> {
    let (name, seconds) = (&report.part, report.seconds);
    let failed = report.failed_checks().count();
    say(json!({"part": name, "ended": report.end, "seconds": seconds}))?;
    match &report.end {
        End::Done => eprintln!(
            "{name}: {} checks, {failed} failed, {seconds:.1} s",
            report.checks()
        ),
        End::Failed { error } | End::Died { error } => eprintln!("{name}: it FAILED: {error}"),
        End::TimedOut { limit_s } => eprintln!("{name}: it was ENDED after {limit_s} s"),
        End::NotBegun => {
            eprintln!("{name}: not begun, because the time is over or the device cannot be asked")
        }
    }
    Ok(())
}
