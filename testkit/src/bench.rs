//! What every benchmark does: it runs what its arguments choose and prints a JSON line for each figure on stdout.
//!
//! Rule: a figure's floor is measured in the same run, and its ratio is the value over the floor.

use serde_json::{Value, json};

/// The benchmarks that the arguments choose: those whose name holds one of them, or all where there are none. Options,
/// such as cargo's `--bench`, are no names.
#[derive(Debug, Clone)]
pub struct Chosen(Vec<String>);

impl Chosen {
    /// Reads the arguments of this process.
    #[must_use]
    pub fn by_arguments() -> Self {
        let arguments = std::env::args().skip(1);
        Self(arguments.filter(|name| !name.starts_with('-')).collect())
    }

    /// Returns whether a benchmark of that name is to run.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.is_all() || self.0.iter().any(|part| name.contains(part.as_str()))
    }

    /// Returns whether all benchmarks are to run.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
}

/// A measured figure.
#[derive(Debug, Clone)]
#[must_use = "a figure is to be printed"]
pub struct Figure {
    json: Value,
    value: f64,
}

impl Figure {
    /// Makes a figure of which less is better.
    pub fn lower(name: &str, value: f64, unit: &str) -> Self {
        let json = json!({
            "name": name, "value": value, "unit": unit, "better": "lower",
            "floor": null, "ratio": null, "peer": null,
        });
        Self { json, value }
    }

    /// Makes a figure of which more is better.
    pub fn higher(name: &str, value: f64, unit: &str) -> Self {
        Self::lower(name, value, unit).with("better", "higher")
    }

    /// Adds its floor and the ratio to it.
    pub fn floor(self, floor: f64) -> Self {
        let ratio = self.value / floor;
        self.with("floor", floor).with("ratio", ratio)
    }

    /// Sets a member of the line, as `peer` or one of the benchmark's own.
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.json[member] = value.into();
        self
    }

    /// Prints its line.
    pub fn print(self) {
        println!("{}", self.json);
    }
}
