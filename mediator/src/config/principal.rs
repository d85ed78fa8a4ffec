//! A user or group as the configuration names it: by number or by name.
//!
//! Rule: it is kept as text and looked up where the system may be asked, in the supervisor.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The number or name of a user or group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Principal(String);

impl Principal {
    /// Returns the number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.0.parse().ok()
    }

    /// Returns the text, a number or a name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Principal {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Between our own processes it travels as text; a person may write a number.
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Words)
        } else {
            deserializer.deserialize_str(Words)
        }
    }
}

struct Words;

impl Visitor<'_> for Words {
    type Value = Principal;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a name, or a number of at least 0")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Principal, E> {
        Ok(Principal::from(text))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Principal, E> {
        let number = u32::try_from(number)
            .map_err(|_| E::custom(format!("{number} is no user or group number")))?;
        Ok(Principal(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Principal, E> {
        let number = u32::try_from(number)
            .map_err(|_| E::custom(format!("{number} is no user or group number")))?;
        Ok(Principal(number.to_string()))
    }
}
