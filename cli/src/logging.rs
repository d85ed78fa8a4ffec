//! Logs, on stderr.
//!
//! Rules: `GRIDMUX_LOG` (as `info`, or `gridmux_mediator=debug`) decides; the service logs from `info` on without it,
//! every other command from `warn` on. A directive that is not valid is ignored, with a warning from the command that a
//! person started and none from the processes that this starts.

use crate::output::note;
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;

/// Name of the environment variable with the filter.
pub(crate) const VARIABLE: &str = "GRIDMUX_LOG";
/// The levels, from least to most.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The directives that the variable holds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// The parts that a filter is made of, with commas between them.
    good: String,
    /// The others.
    wrong: Vec<String>,
}

/// Starts logging. `tells` is whether it says what is wrong in the variable.
pub(crate) fn start(default: LevelFilter, tells: bool) {
    let said = said();
    if tells {
        for wrong in &said.wrong {
            note(&format!(
                "warning: {VARIABLE}: {wrong:?} is passed over: it is neither a level nor PART=LEVEL; the levels \
                 are {}",
                LEVELS.join(", ")
            ));
        }
    }
    let filter = EnvFilter::builder()
        .with_default_directive(default.into())
        .parse_lossy(said.good);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Returns what of the variable is right, for the processes that this one starts; `None` if it says nothing.
pub(crate) fn directives() -> Option<String> {
    Some(said().good).filter(|good| !good.is_empty())
}

fn said() -> Said {
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    parse(&text.to_string_lossy())
}

fn parse(text: &str) -> Said {
    let mut said = Said::default();
    let mut good = Vec::new();
    for part in parts(text) {
        match is_right(part) {
            true => good.push(part),
            false => said.wrong.push(part.to_owned()),
        }
    }
    said.good = good.join(",");
    said
}

/// Splits at the commas that stand outside of brackets and braces.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let parts = text.split(move |c| {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// Returns whether a part says something. A word alone is a level, or a part of this program: any other word would
/// silence all logs but those of a part of that name.
fn is_right(part: &str) -> bool {
    let is_word = !part.contains(['=', '[']);
    let is_known = part.parse::<LevelFilter>().is_ok() || part.starts_with("gridmux");
    part.parse::<Directive>().is_ok() && (is_known || !is_word)
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, Said, parse};

    #[test]
    fn what_names_no_level_is_passed_over() {
        for level in LEVELS {
            assert_eq!(parse(level).wrong, Vec::<String>::new());
        }
        assert_eq!(parse(""), Said::default());
        for good in [
            "DEBUG",
            "info,gridmux_mediator=debug",
            "gridmux_mediator",
            "gridmux_mediator[a{b=1,c=2}]=trace,warn",
        ] {
            let said = parse(good);
            assert_eq!((&*said.good, said.wrong.len()), (good, 0));
        }
        let said = parse("gridmux_mediator=debug, debgu,gridmux_policy=lots");
        assert_eq!(said.good, "gridmux_mediator=debug");
        assert_eq!(said.wrong, ["debgu", "gridmux_policy=lots"]);
    }
}
