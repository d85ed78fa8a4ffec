//! What a part is given: a session on the device, a scale, and a place for its findings.

use crate::cuda::{CudaError, Session};
use crate::finding::{Finding, Validation};
use clap::ValueEnum;
use serde_json::Value;
use std::fmt;

/// The size of a run's launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Seconds in all, over the SM model or a GPU: says whether everything works.
    Quick,
    /// Minutes in all, on a GPU: figures that mean something.
    Full,
}

impl Scale {
    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    /// Returns one of two values.
    #[must_use]
    pub fn choose<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The device and the findings of one part.
pub struct Lab<'a> {
    /// The device.
    pub cuda: &'a Session,
    /// The size of launches.
    pub scale: Scale,
    /// Where findings go.
    sink: &'a mut dyn FnMut(Finding),
}

impl fmt::Debug for Lab<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab")
            .field("scale", &self.scale)
            .finish_non_exhaustive()
    }
}

impl<'a> Lab<'a> {
    /// Returns a lab whose findings go to `sink`.
    #[must_use]
    pub fn new(cuda: &'a Session, scale: Scale, sink: &'a mut dyn FnMut(Finding)) -> Self {
        Self { cuda, scale, sink }
    }

    /// Reports whether something is as gridmux relies on; the detail says what was seen.
    pub fn check(&mut self, name: impl Into<String>, passed: bool, detail: impl fmt::Display) {
        (self.sink)(Finding::Check {
            name: name.into(),
            passed,
            detail: detail.to_string(),
        });
    }

    /// Reports a measured value; one that is not finite is skipped.
    pub fn figure(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        (self.sink)(Finding::measured(name.into(), value, unit, None));
    }

    /// Reports the least, the median and the greatest of values; nothing where there is none.
    pub fn spread(&mut self, name: &str, mut values: Vec<f64>, unit: &str) {
        values.sort_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (values.first(), values.last()) {
            self.figure(format!("{name}: least"), *least, unit);
            self.figure(format!("{name}: median"), values[values.len() / 2], unit);
            self.figure(format!("{name}: most"), *most, unit);
        }
    }

    /// Reports the median of values; nothing where there is none.
    pub fn median(&mut self, name: &str, mut values: Vec<f64>, unit: &str) {
        values.sort_by(f64::total_cmp);
        if let Some(median) = values.get(values.len() / 2) {
            self.figure(format!("{name}: median"), *median, unit);
        }
    }

    /// Asks one question of several. Its error is a finding and ends this question alone: what the driver or the device
    /// does not offer is reported as such, and everything else as a check that failed.
    pub fn ask(&mut self, question: &str, answer: impl FnOnce(&mut Self) -> anyhow::Result<()>) {
        let Err(error) = answer(self) else {
            return;
        };
        match error.downcast_ref::<CudaError>() {
            Some(refused) if refused.is_not_offered() => self.skipped(question, refused),
            _ => self.check(
                format!("{question}: the question can be asked"),
                false,
                format!("{error:#}"),
            ),
        }
        // What it has left running would disturb the next question, whose own calls tell of an error that stays.
        drop(self.cuda.wait_for_all());
    }

    /// Reports a measured value that a validation file holds; one that is not finite is skipped.
    pub fn validation(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &str,
        validation: Validation,
    ) {
        (self.sink)(Finding::measured(
            name.into(),
            value,
            unit,
            Some(validation),
        ));
    }

    /// Reports what the driver says.
    pub fn fact(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        (self.sink)(Finding::Fact {
            name: name.into(),
            value: value.into(),
        });
    }

    /// Reports what was not done, and why.
    pub fn skipped(&mut self, name: impl Into<String>, why: impl fmt::Display) {
        (self.sink)(Finding::Skipped {
            name: name.into(),
            why: why.to_string(),
        });
    }

    /// Returns what a call gave; where the driver or the device does not offer it, reports that and returns `None`.
    ///
    /// # Errors
    /// Every other error of the call.
    pub fn offered<T>(
        &mut self,
        name: &str,
        result: Result<T, CudaError>,
    ) -> Result<Option<T>, CudaError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_offered() => {
                self.skipped(name, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
