//! Kernel forms: what a kernel is rewritten into so that it can be cut, looped or confined.
//!
//! A form is a [`Shape`], which says how the launch covers the grid, with or without the fence. [`FormVerdicts`] says
//! which forms each kernel can take and why not the others; [`rewrite`] makes of one module the form that the caller
//! chooses for each kernel, and prints it ([`print`](crate::print)). A kernel that cannot take its form stays whole,
//! and the refusal says why and on which line. When in doubt a form refuses.
//!
//! A shape has a file, the fence a folder; each has a function `judge`, which gives the reason against it, and a
//! function `edit`, which puts its [`code`] into a function's [`frame`]. What forms share has files of its own:
//! [`facts`] about one function, [`special_reads`], [`carry`] for values that a callee needs, [`waits`] and
//! [`convergence`] for what threads wait for. Two more passes change no launch: [`stamp`] for what it tells, and
//! [`place`] for where the module's variables are.
//!
//! Rule: forms change the typed tree and nothing else; no byte of the tenant's text reaches the printed one but for
//! what the print keeps.

mod assemble;
mod carry;
mod code;
mod convergence;
mod facts;
pub mod fence;
mod frame;
mod judge;
mod make;
mod place;
mod reason;
mod slice;
mod special_reads;
mod stamp;
mod value;
#[cfg(debug_assertions)]
mod verify;
mod waits;
mod worker;

pub use judge::FormVerdicts;
pub use make::{Rewritten, rewrite, rewrite_with};
pub use place::Unplaced;
pub use reason::{Reason, Refusal};

use crate::print::Layout;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// How launches cover the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Shape {
    /// As the original does, in one launch.
    Whole,
    /// In launches of sub-boxes, whose offsets the control block gives.
    Slice,
    /// By workers along x, blocks that take the numbers of one block of the grid after another until none is left.
    Worker,
}

/// A form: a shape, with or without the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Form {
    /// How the launch covers the grid.
    pub shape: Shape,
    /// Whether every address is confined to the tenant's partition.
    pub fenced: bool,
}

impl Form {
    /// Unchanged; launched whole.
    pub const WHOLE: Self = Self::plain(Shape::Whole);
    /// Launched in sub-boxes of its grid.
    pub const SLICE: Self = Self::plain(Shape::Slice);
    /// A loop over block numbers.
    pub const WORKER: Self = Self::plain(Shape::Worker);
    /// Confined, launched whole.
    pub const FENCE: Self = Self::WHOLE.fence();
    /// Confined, in sub-boxes.
    pub const FENCE_SLICE: Self = Self::SLICE.fence();
    /// Confined, as a loop.
    pub const FENCE_WORKER: Self = Self::WORKER.fence();
    /// Every form.
    pub const ALL: [Self; 6] = [
        Self::WHOLE,
        Self::SLICE,
        Self::WORKER,
        Self::FENCE,
        Self::FENCE_SLICE,
        Self::FENCE_WORKER,
    ];

    const fn plain(shape: Shape) -> Self {
        Self {
            shape,
            fenced: false,
        }
    }

    /// Returns the same shape, fenced.
    #[must_use]
    pub const fn fence(self) -> Self {
        Self {
            fenced: true,
            ..self
        }
    }

    /// Returns whether a kernel in this form has the control block as its first parameter.
    #[must_use]
    pub fn has_control(self) -> bool {
        self != Self::WHOLE
    }

    /// Returns the name that the command line takes and prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.shape, self.fenced) {
            (Shape::Whole, false) => "whole",
            (Shape::Slice, false) => "slice",
            (Shape::Worker, false) => "worker",
            (Shape::Whole, true) => "fence",
            (Shape::Slice, true) => "fence+slice",
            (Shape::Worker, true) => "fence+worker",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(D::Error::custom)
    }
}

/// No form has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no form {name:?}; the forms are whole, slice, worker, fence, fence+slice and fence+worker"
)]
pub struct NoSuchForm {
    /// What was asked for.
    pub name: String,
}

impl FromStr for Form {
    type Err = NoSuchForm;

    fn from_str(name: &str) -> Result<Self, NoSuchForm> {
        Self::ALL
            .into_iter()
            .find(|form| form.name() == name)
            .ok_or_else(|| NoSuchForm {
                name: name.to_owned(),
            })
    }
}

/// How forms are made, where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How addresses are confined.
    pub fence: fence::FenceOptions,
    /// Whether blocks write stamps where the control block of their launch asks for them.
    pub stamps: bool,
    /// Where the module's variables are, if a kernel is fenced.
    pub variables: Variables,
    /// How the text is laid out.
    pub layout: Layout,
}

/// Where the variables of a module are in which a kernel is fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Variables {
    /// In the module's text. Whoever loads it places them in the reservation.
    #[default]
    InText,
    /// In a block that the host allocates in the reservation ([`Placed`](crate::placed::Placed)), for drivers that
    /// place variables where they like.
    Placed,
}

#[cfg(test)]
mod tests {
    use super::Form;

    #[test]
    fn every_form_is_found_by_its_name() {
        for form in Form::ALL {
            assert_eq!(form.to_string().parse(), Ok(form));
            assert_eq!(serde_json::to_value(form).unwrap(), form.name());
        }
        let error = "turbo".parse::<Form>().unwrap_err();
        assert!(error.to_string().contains("\"turbo\""), "{error}");
    }
}
