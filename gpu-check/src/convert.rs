//! A document as a file of `hw-model/validation`.
//!
//! Rules: the file says what was measured and by what; which description the card is held against, and where the
//! figures can be opened, the caller says. A document that lacks something, or has it otherwise than a run writes it,
//! becomes no file. Each figure takes one line, so that two files can be compared line by line.

use crate::document::Document;
use crate::finding::Finding;
use crate::lab::Scale;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use toml::ser::ValueSerializer;

/// What a document does not know of its card.
#[derive(Debug, Clone)]
pub struct Publication {
    /// Name of the description in `hw-model/configs` that the card is held against.
    pub base: String,
    /// Address under which the figures can be opened.
    pub url: String,
    /// SMs of the part of the chip on which the model runs bandwidth kernels; all of them where nothing is given.
    pub slice_sms: Option<u16>,
    /// Whether the figures of a quick run, which mean nothing, are taken, too.
    pub allow_quick: bool,
}

#[derive(Serialize)]
struct Source {
    title: String,
    url: String,
    note: String,
}

#[derive(Serialize)]
struct Card {
    name: String,
    base: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    slice_sms: Option<u16>,
    set: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Figure {
    name: String,
    class: String,
    unit: String,
    value: f64,
    at: String,
    run: toml::Table,
}

/// The document cannot become a validation file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum ConvertError {
    /// It is of a run that was not a full one.
    #[error(
        "the document is of a {scale} run, whose figures mean nothing; --allow-quick takes them all the same"
    )]
    NotFull { scale: String },
    /// The part that names the card was not run.
    #[error("the document has no {fact} of the device: run the part \"device\" with the others")]
    NoDevice { fact: &'static str },
    /// A fact is of another kind than the driver's.
    #[error("the document says {fact} = {value} of the device, which is no {due}")]
    WrongFact {
        fact: &'static str,
        value: String,
        due: &'static str,
    },
    /// A parameter of what was run is nothing that a validation file knows.
    #[error("the figure {figure:?} has a parameter that cannot be written: {why}")]
    Parameter {
        figure: String,
        why: toml::ser::Error,
    },
    /// A figure has a value that nothing measured has.
    #[error("the figure {figure:?} is {value}, and what was measured is finite and above zero")]
    Value { figure: String, value: f64 },
    /// The text cannot be made.
    #[error("the validation file cannot be written: {0}")]
    Text(#[from] toml::ser::Error),
    /// There is nothing to be held against.
    #[error("the document has no figure of the validation kernels: run the part \"validation\"")]
    NoFigures,
}

/// Returns the text of the validation file.
///
/// # Errors
/// [`ConvertError`].
pub fn validation_file(
    document: &Document,
    publication: &Publication,
) -> Result<String, ConvertError> {
    if document.scale != Scale::Full.name() && !publication.allow_quick {
        let scale = document.scale.clone();
        return Err(ConvertError::NotFull { scale });
    }
    let name = fact(document, "name", "text", Value::as_str)?.to_owned();
    let number = |name| fact(document, name, "whole number", Value::as_u64);
    let cuda = number("driver_version")?;
    let text = |name| document.fact("device", name).and_then(Value::as_str);
    let date = text("date").map_or_else(String::new, |date| format!(", {date}"));
    let driver = text("kernel_driver").map_or_else(String::new, |version| format!(" {version}"));
    let set = BTreeMap::from([
        ("sm.count", number("sms")?),
        ("clock.core_mhz", number("clock_khz")? / 1000),
    ]);
    let found = document.parts.iter().flat_map(|part| {
        let findings = part.findings.iter();
        findings.filter_map(|finding| figure(&part.part, finding))
    });
    let figures = found.collect::<Result<Vec<_>, _>>()?;
    if figures.is_empty() {
        return Err(ConvertError::NoFigures);
    }
    let source = Source {
        title: format!(
            "gridmux gpu-check on {name}{date}, driver{driver} for CUDA {}.{}",
            cuda / 1000,
            cuda % 1000 / 10
        ),
        url: publication.url.clone(),
        note: "Times are by the driver's events, but for launches, which are by the wall clock; cycles are those times \
               by the clock that one SM had right after. What the card sets is what the driver says."
            .to_owned(),
    };
    let card = Card {
        name,
        base: publication.base.clone(),
        slice_sms: publication.slice_sms,
        set,
    };
    text_of(&source, &card, &figures)
}

/// Returns the text of a validation file, a line for each field of source and card and one for each figure.
fn text_of(source: &Source, card: &Card, figures: &[Figure]) -> Result<String, ConvertError> {
    let mut text = String::new();
    for (table, fields) in [
        ("source", toml::Table::try_from(source)?),
        ("card", toml::Table::try_from(card)?),
    ] {
        for (field, value) in fields {
            text.push_str(&format!("{table}.{field} = {}\n", inline(&value)?));
        }
        text.push('\n');
    }
    text.push_str("figure = [\n");
    for figure in figures {
        text.push_str(&format!("    {},\n", inline(figure)?));
    }
    text.push_str("]\n");
    Ok(text)
}

/// Returns a value in one line, its fields in the order of their declaration.
fn inline(value: &impl Serialize) -> Result<String, toml::ser::Error> {
    let mut text = String::new();
    value.serialize(ValueSerializer::new(&mut text))?;
    Ok(text)
}

/// Returns a fact of the device, as `read` has it.
fn fact<'a, T>(
    document: &'a Document,
    fact: &'static str,
    due: &'static str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<T, ConvertError> {
    let value = document
        .fact("device", fact)
        .ok_or(ConvertError::NoDevice { fact })?;
    read(value).ok_or_else(|| ConvertError::WrongFact {
        fact,
        value: value.to_string(),
        due,
    })
}

/// Returns the figure of a finding that a validation file knows.
fn figure(part: &str, finding: &Finding) -> Option<Result<Figure, ConvertError>> {
    let Finding::Figure {
        name,
        value,
        unit,
        validation: Some(validation),
    } = finding
    else {
        return None;
    };
    if !value.is_finite() || *value <= 0.0 {
        return Some(Err(ConvertError::Value {
            figure: name.clone(),
            value: *value,
        }));
    }
    let run = toml::Table::try_from(&validation.run).map_err(|why| ConvertError::Parameter {
        figure: name.clone(),
        why,
    });
    Some(run.map(|run| Figure {
        name: name.clone(),
        class: validation.class.clone(),
        unit: unit.clone(),
        value: *value,
        at: format!("part {part}"),
        run,
    }))
}

#[cfg(test)]
mod tests {
    use super::{ConvertError, Publication, validation_file};
    use crate::document::Document;
    use crate::finding::{End, Finding, PartReport, Validation};
    use serde_json::{Value, json};
    use std::path::Path;

    fn convert(document: &Document, allow_quick: bool) -> Result<String, ConvertError> {
        let publication = Publication {
            base: "h200".to_owned(),
            url: "https://example.org".to_owned(),
            slice_sms: Some(11),
            allow_quick,
        };
        validation_file(document, &publication)
    }

    fn report(part: &str, findings: Vec<Finding>) -> PartReport {
        PartReport {
            end: End::Done,
            findings,
            ..PartReport::not_begun(part)
        }
    }

    /// Returns a device whose facts are those of a driver, but for one.
    fn device(other: &str, value: &Value) -> PartReport {
        let facts = [
            ("name", json!("a card")),
            ("driver_version", json!(12080)),
            ("sms", json!(132)),
            ("clock_khz", json!(1_980_000)),
            ("date", json!("2026-11-27")),
            ("kernel_driver", json!("580.1")),
        ];
        let facts = facts.map(|(name, due)| Finding::Fact {
            name: name.to_owned(),
            value: if name == other { value.clone() } else { due },
        });
        report("device", facts.into())
    }

    /// Returns a part with one figure.
    fn figures(parameter: Value) -> PartReport {
        let run = [("kernel", json!("chase")), ("footprint_kb", parameter)];
        let run = run.map(|(key, value)| (key.to_owned(), value));
        let figure = Finding::Figure {
            name: "chase footprint_kb=16".to_owned(),
            value: 33.5,
            unit: "cycles".to_owned(),
            validation: Some(Validation {
                class: "latency".to_owned(),
                run: run.into_iter().collect(),
            }),
        };
        report("validation", vec![figure])
    }

    #[test]
    fn a_full_run_becomes_a_file_and_a_quick_one_only_when_that_is_allowed() {
        let parts = vec![device("", &Value::Null), figures(json!(16))];
        let text = convert(&Document::new("full", parts.clone()), false).unwrap();
        let file: toml::Table = text.parse().unwrap();
        let title = "gridmux gpu-check on a card, 2026-11-27, driver 580.1 for CUDA 12.8";
        assert_eq!(file["source"]["title"].as_str(), Some(title));
        assert_eq!(file["card"]["slice_sms"].as_integer(), Some(11));
        assert_eq!(file["card"]["set"]["sm.count"].as_integer(), Some(132));
        let lines = text.lines().filter(|line| line.contains("footprint_kb"));
        assert_eq!(lines.count(), 1, "{text}");
        assert_eq!(
            file["figure"][0]["run"]["footprint_kb"].as_integer(),
            Some(16)
        );
        let quick = Document::new("quick", parts);
        let scale = "quick".to_owned();
        assert_eq!(convert(&quick, false), Err(ConvertError::NotFull { scale }));
        assert_eq!(convert(&quick, true), Ok(text));
    }

    #[test]
    fn the_documents_of_two_cards_make_the_files_that_stand_beside_them() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hw-model/validation");
        for card in ["h200", "h100"] {
            let url = format!("hw-model/validation/documents/{card}-2026-11-27.json");
            let file = folder.join(format!("documents/{card}-2026-11-27.json"));
            let document = Document::read(&file).unwrap();
            let publication = Publication {
                base: card.to_owned(),
                url,
                slice_sms: Some(11),
                allow_quick: false,
            };
            let text = validation_file(&document, &publication).unwrap();
            let due = folder.join(format!("{card}-gpu-check.toml"));
            assert_eq!(text, std::fs::read_to_string(due).unwrap());
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let full = |parts| convert(&Document::new("full", parts), false);
        let missing = ConvertError::NoDevice { fact: "name" };
        assert_eq!(full(Vec::new()), Err(missing));
        let device_alone = full(vec![device("", &Value::Null)]);
        assert_eq!(device_alone, Err(ConvertError::NoFigures));
        for (fact, value, due) in [
            ("name", json!(7), "text"),
            ("sms", json!("132"), "whole number"),
            ("clock_khz", json!(-1), "whole number"),
        ] {
            let wrong = ConvertError::WrongFact {
                fact,
                value: value.to_string(),
                due,
            };
            let parts = vec![device(fact, &value), figures(json!(16))];
            assert_eq!(full(parts), Err(wrong));
        }
        let unwritable = full(vec![device("", &Value::Null), figures(Value::Null)]);
        let Err(ConvertError::Parameter { figure, .. }) = unwritable else {
            panic!("{unwritable:?}");
        };
        assert_eq!(figure, "chase footprint_kb=16");
    }

    #[test]
    fn what_nothing_measured_has_becomes_no_file() {
        for wrong in [-1.0, 0.0, f64::INFINITY] {
            let mut part = figures(json!(16));
            let Finding::Figure { value, .. } = &mut part.findings[0] else {
                panic!("a figure");
            };
            *value = wrong;
            let document = Document::new("full", vec![device("", &Value::Null), part]);
            let error = convert(&document, false).unwrap_err().to_string();
            assert!(error.contains("chase footprint_kb=16"), "{error}");
        }
    }
}
