//! The class of a tenant: what kind of service it asks for, beside its weight.
//!
//! Rules: a class is the operator's word, from the configuration; a policy may treat classes differently, and one that
//! does not treats all alike. The names here are those of configuration files and of JSON.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What kind of service a tenant asks for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Short launches whose delay matters more than their throughput.
    Latency,
    /// No special wish.
    #[default]
    Normal,
    /// Throughput only: any launch may be delayed.
    Batch,
}

impl Class {
    /// Every class, in the order in which messages name them.
    pub const ALL: [Self; 3] = [Self::Latency, Self::Normal, Self::Batch];

    /// Returns the name in configuration files, on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Normal => "normal",
            Self::Batch => "batch",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// A word that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no class; known are latency, normal, batch")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|class| class.name() == text)
            .ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::Class;

    #[test]
    fn every_class_is_known_by_its_name_and_others_are_named_in_the_error() {
        for class in Class::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        let error = "fast".parse::<Class>().unwrap_err().to_string();
        for word in ["fast", "latency", "normal", "batch"] {
            assert!(error.contains(word), "{error}");
        }
    }
}
