//! The two formats of an answer: OpenMetrics, and the older text format of Prometheus.
//!
//! Rules: figures are written once, as OpenMetrics text; the older format is made of that text. Who asks says by
//! `Accept` which one it reads (RFC 9110, section 12.5.1); who does not say gets OpenMetrics.

use clap::ValueEnum;
use std::fmt::Write;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// OpenMetrics 1.0.0, which Prometheus asks for since 2.5
    Openmetrics,
    /// Prometheus' text format 0.0.4, which `promtool check metrics` reads
    Text,
}

impl Format {
    /// Returns the format that the values of the request's `Accept` headers ask for.
    pub(super) fn accepted<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Self {
        let is_text = |value: &[u8]| {
            let value = String::from_utf8_lossy(value).to_ascii_lowercase();
            value.contains("text/plain") && !value.contains("application/openmetrics-text")
        };
        match values.any(is_text) {
            true => Self::Text,
            false => Self::Openmetrics,
        }
    }

    /// Returns the type of an answer's content.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Openmetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Returns OpenMetrics text in this format.
    pub(super) fn of(self, openmetrics: String) -> String {
        match self {
            Self::Openmetrics => openmetrics,
            Self::Text => text(&openmetrics),
        }
    }
}

/// Returns OpenMetrics text as Prometheus' text format: a counter and an information are named there as their samples
/// are, units have no line, and nothing marks the end.
fn text(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    // The help of a family comes before its type, which says how it is named.
    let mut help = None;
    for line in openmetrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("HELP"), Some(_), Some(words)) => help = Some(words),
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (ending, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                if let Some(help) = help.take() {
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "# HELP {name}{ending} {help}");
                }
                let _ = writeln!(text, "# TYPE {name}{ending} {kind}");
            }
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn who_reads_openmetrics_or_says_nothing_gets_it() {
        let of = |accept: &'static str| Format::accepted([accept.as_bytes()].into_iter());
        // What Prometheus 2.42 sends.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                          q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(of(prometheus), Format::Openmetrics);
        assert_eq!(of("*/*"), Format::Openmetrics);
        assert_eq!(of("text/plain; version=0.0.4"), Format::Text);
        assert_eq!(Format::accepted(std::iter::empty()), Format::Openmetrics);
    }

    #[test]
    fn the_text_format_names_counters_and_informations_as_their_samples() {
        let openmetrics = "# HELP a Ends.\n# TYPE a counter\na_total 1\n\
                           # HELP b_seconds Waits.\n# TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 2.0\n\
                           # HELP c Facts.\n# TYPE c info\nc_info{d=\"e\"} 1\n# EOF\n";
        let text = "# HELP a_total Ends.\n# TYPE a_total counter\na_total 1\n\
                    # HELP b_seconds Waits.\n# TYPE b_seconds gauge\nb_seconds 2.0\n\
                    # HELP c_info Facts.\n# TYPE c_info gauge\nc_info{d=\"e\"} 1\n";
        assert_eq!(Format::Text.of(openmetrics.to_owned()), text);
        assert_eq!(Format::Openmetrics.of(openmetrics.to_owned()), openmetrics);
    }
}
