//! A document as a file of `hw-model/validation`.
//!
//! Rule: the file says what was measured and by what; which description the card is held against, and where the figures
//! can be opened, the caller says.

use crate::document::Document;
use crate::finding::Finding;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a document does not know of its card.
#[derive(Debug, Clone)]
pub struct Publication {
    /// Name of the description in `hw-model/configs` that the card is held against.
    pub base: String,
    /// Address under which the figures can be opened.
    pub url: String,
}

#[derive(Serialize)]
struct File {
    source: Source,
    card: Card,
    figure: Vec<Figure>,
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

/// The document lacks something that a validation file needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The part that names the card was not run.
    #[error("the document has no {fact} of the device: run the part \"device\" with the others")]
    NoDevice {
        /// What is missing.
        fact: &'static str,
    },
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
    let fact = |fact: &'static str| {
        document
            .fact("device", fact)
            .ok_or(ConvertError::NoDevice { fact })
    };
    let name = fact("name")?.as_str().unwrap_or_default().to_owned();
    let number = |name: &'static str| -> Result<u64, ConvertError> {
        Ok(fact(name)?.as_u64().unwrap_or_default())
    };
    let driver = number("driver_version")?;
    let set = BTreeMap::from([
        ("sm.count", number("sms")?),
        ("clock.core_mhz", number("clock_khz")? / 1000),
    ]);
    let figures: Vec<Figure> = document
        .parts
        .iter()
        .flat_map(|part| {
            part.findings
                .iter()
                .filter_map(|finding| figure(&part.part, finding))
        })
        .collect();
    if figures.is_empty() {
        return Err(ConvertError::NoFigures);
    }
    let file = File {
        source: Source {
            title: format!("gridmux gpu-check on {name}, driver for CUDA {}.{}", driver / 1000, driver % 1000 / 10),
            url: publication.url.clone(),
            note: "Times are by the driver's events, but for launches, which are by the wall clock; cycles are those \
                   times by the clock at which an SM ran right before. What the card sets is what the driver says."
                .to_owned(),
        },
        card: Card {
            name,
            base: publication.base.clone(),
            set,
        },
        figure: figures,
    };
    // Numbers, texts and tables of such are always written.
    Ok(toml::to_string_pretty(&file).unwrap_or_default())
}

/// Returns the figure of a finding that a validation file knows.
fn figure(part: &str, finding: &Finding) -> Option<Figure> {
    let Finding::Figure {
        name,
        value,
        unit,
        validation: Some(validation),
    } = finding
    else {
        return None;
    };
    let run = validation.run.iter();
    Some(Figure {
        name: name.clone(),
        class: validation.class.clone(),
        unit: unit.clone(),
        value: *value,
        at: format!("part {part}"),
        run: run
            .filter_map(|(key, value)| Some((key.clone(), toml_value(value)?)))
            .collect(),
    })
}

fn toml_value(value: &serde_json::Value) -> Option<toml::Value> {
    toml::Value::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::{ConvertError, Publication, validation_file};
    use crate::document::Document;
    use crate::finding::{End, Finding, Report};

    #[test]
    fn what_is_missing_is_named() {
        let publication = Publication {
            base: "h200".to_owned(),
            url: "https://example.org".to_owned(),
        };
        let convert = |parts| validation_file(&Document::new("quick", parts), &publication);
        assert_eq!(
            convert(Vec::new()),
            Err(ConvertError::NoDevice { fact: "name" })
        );
        let facts = ["name", "driver_version", "sms", "clock_khz"].map(|name| Finding::Fact {
            name: name.to_owned(),
            value: 4.into(),
        });
        let device = Report {
            part: "device".to_owned(),
            end: End::Done,
            seconds: 1.0,
            findings: facts.into(),
        };
        assert_eq!(convert(vec![device]), Err(ConvertError::NoFigures));
    }
}
