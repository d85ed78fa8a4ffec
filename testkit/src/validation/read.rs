//! Reads validation files.
//!
//! Rules: unknown keys, kernels, operations, classes and units are refused with the names that exist; a curve is a
//! short way to write figures that differ in one parameter of their run; an estimate is a value that the card sets.

use super::schema::{Bound, Card, Class, Figure, Measurements, Run, Source, Unit};
use gridmux_hw_model::{ConfigError, Description};
use serde::Deserialize;
use std::path::Path;

/// Why a validation file was refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum SchemaError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Io {
        file: String,
        source: std::io::Error,
    },
    /// It is no TOML, or has a key, class or unit that does not exist.
    #[error("{file}: {source}")]
    Syntax {
        file: String,
        source: Box<toml::de::Error>,
    },
    /// A figure's run names a kernel, operation or parameter that does not exist.
    #[error("{file}: figure '{figure}': {source}")]
    Run {
        file: String,
        figure: String,
        source: Box<toml::de::Error>,
    },
    /// A kernel does not measure anything of the figure's unit.
    #[error("{file}: figure '{figure}': kernel '{kernel}' has no value in {unit}; it has: {known}")]
    Unit {
        file: String,
        figure: String,
        kernel: &'static str,
        unit: Unit,
        known: String,
    },
    /// A value that no measurement can have, or a name that stands there twice.
    #[error("{file}: figure '{figure}': {reason}")]
    Figure {
        file: String,
        figure: String,
        reason: String,
    },
    /// The card's description is none.
    #[error("{file}: card '{card}': {source}")]
    Card {
        file: String,
        card: String,
        source: Box<ConfigError>,
    },
    /// A card calls a value an estimate that it does not set, or does so twice.
    #[error("{file}: card '{card}': estimates names '{key}', {reason}")]
    Estimate {
        file: String,
        card: String,
        key: String,
        reason: String,
    },
}

/// The card, as a description of the model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCard {
    name: String,
    base: String,
    #[serde(default)]
    slice_sms: Option<u16>,
    #[serde(default)]
    estimates: Vec<String>,
    #[serde(default)]
    set: toml::Table,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFigure {
    name: String,
    class: Class,
    unit: Unit,
    value: f64,
    #[serde(default)]
    bound: Bound,
    at: String,
    run: toml::Table,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCurve {
    name: String,
    class: Class,
    unit: Unit,
    at: String,
    run: toml::Table,
    x: String,
    points: Vec<(i64, f64)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    source: Source,
    card: RawCard,
    #[serde(default)]
    figure: Vec<RawFigure>,
    #[serde(default)]
    curve: Vec<RawCurve>,
}

/// Reads every validation file, in order of name.
///
/// # Errors
/// The first file that is refused.
pub fn read_all(folder: &Path) -> Result<Vec<Measurements>, SchemaError> {
    let io = |source| SchemaError::Io {
        file: folder.display().to_string(),
        source,
    };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(io)? {
        let path = entry.map_err(io)?.path();
        let is_toml = path.extension().is_some_and(|e| e == "toml");
        if is_toml && path.file_name().is_some_and(|name| name != "bounds.toml") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Measurements, SchemaError> {
    let file = path.file_stem().unwrap_or_default().to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|source| SchemaError::Io {
        file: path.display().to_string(),
        source,
    })?;
    parse(&file, &text)
}

/// Reads and checks the text of a validation file called `file`.
///
/// # Errors
/// The first fault in it, with its position and the names that exist.
pub fn parse(file: &str, text: &str) -> Result<Measurements, SchemaError> {
    let raw: RawFile = toml::from_str(text).map_err(|source| SchemaError::Syntax {
        file: file.to_owned(),
        source: Box::new(source),
    })?;
    let card = card(file, raw.card)?;
    let mut figures = Vec::new();
    for figure in raw.figure {
        figures.push(Figure {
            run: run(file, &figure.name, figure.run)?,
            name: figure.name,
            class: figure.class,
            unit: figure.unit,
            value: figure.value,
            bound: figure.bound,
            at: figure.at,
            point: None,
        });
    }
    for curve in raw.curve {
        for (x, value) in &curve.points {
            let name = format!("{} {}={x}", curve.name, curve.x);
            let mut parameters = curve.run.clone();
            parameters.insert(curve.x.clone(), toml::Value::Integer(*x));
            figures.push(Figure {
                run: run(file, &name, parameters)?,
                name,
                class: curve.class,
                unit: curve.unit,
                value: *value,
                bound: Bound::Exact,
                at: curve.at.clone(),
                point: Some((curve.name.clone(), curve.x.clone(), *x)),
            });
        }
    }
    for (n, figure) in figures.iter().enumerate() {
        check(file, figure, &figures[..n])?;
    }
    Ok(Measurements {
        file: file.to_owned(),
        source: raw.source,
        card,
        figures,
    })
}

fn run(file: &str, figure: &str, table: toml::Table) -> Result<Run, SchemaError> {
    Run::deserialize(toml::Value::Table(table)).map_err(|source| SchemaError::Run {
        file: file.to_owned(),
        figure: figure.to_owned(),
        source: Box::new(source),
    })
}

fn check(file: &str, figure: &Figure, before: &[Figure]) -> Result<(), SchemaError> {
    let (kernel, units) = figure.run.kernel();
    if !units.contains(&figure.unit) {
        let known: Vec<String> = units.iter().map(Unit::to_string).collect();
        return Err(SchemaError::Unit {
            file: file.to_owned(),
            figure: figure.name.clone(),
            kernel,
            unit: figure.unit,
            known: known.join(", "),
        });
    }
    let twice = before.iter().any(|other| other.name == figure.name);
    let reason = if twice {
        Some("the name stands there twice".to_owned())
    } else if !(figure.value.is_finite() && figure.value > 0.0) {
        Some(format!(
            "value = {}: it must be a positive number",
            figure.value
        ))
    } else {
        figure.run.complaint(figure.unit)
    };
    reason.map_or(Ok(()), |reason| {
        Err(SchemaError::Figure {
            file: file.to_owned(),
            figure: figure.name.clone(),
            reason,
        })
    })
}

/// Checks that every estimate is a value that the card sets, and stands there once.
fn check_estimates(file: &str, raw: &RawCard) -> Result<(), SchemaError> {
    for (n, key) in raw.estimates.iter().enumerate() {
        let reason = if raw.estimates[..n].contains(key) {
            Some("which stands there twice".to_owned())
        } else if raw.set.contains_key(key) {
            None
        } else {
            let known: Vec<&str> = raw.set.keys().map(String::as_str).collect();
            Some(format!(
                "which the card does not set; it sets: {}",
                known.join(", ")
            ))
        };
        if let Some(reason) = reason {
            return Err(SchemaError::Estimate {
                file: file.to_owned(),
                card: raw.name.clone(),
                key: key.clone(),
                reason,
            });
        }
    }
    Ok(())
}

/// Returns the base description with what the card sets.
fn card(file: &str, raw: RawCard) -> Result<Card, SchemaError> {
    let refused = |source| SchemaError::Card {
        file: file.to_owned(),
        card: raw.name.clone(),
        source: Box::new(source),
    };
    check_estimates(file, &raw)?;
    let mut description = Description::builtin(&raw.base).map_err(refused)?;
    for (key, value) in &raw.set {
        description
            .set(&format!("{key} = {value}"))
            .map_err(refused)?;
    }
    let config = description.config().map_err(refused)?;
    Ok(Card {
        name: raw.name,
        estimates: raw.estimates,
        slice_sms: raw.slice_sms.unwrap_or(config.sm.count),
        config,
    })
}
