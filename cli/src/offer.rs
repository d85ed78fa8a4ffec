//! Arguments of which some values are known: shells complete those, and other values are taken as well.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use gridmux_hw_model::builtin_names;
use std::ffi::OsStr;
use std::sync::LazyLock;

/// Kinds of devices: the models, and the first GPU.
static DEVICES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let models = builtin_names().map(|name| format!("model:{name}"));
    models.chain(["cuda:0".to_owned()]).collect()
});

/// Takes any text, and offers some to shells.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    values: Vec<&'static str>,
}

/// Returns the parser of an argument that is one of these texts or another one.
fn offer(values: impl IntoIterator<Item = &'static str>) -> Offer {
    Offer {
        values: values.into_iter().collect(),
    }
}

/// Returns the parser of an argument that names a modelled GPU or a file that describes one.
pub(crate) fn gpus() -> Offer {
    offer(builtin_names())
}

/// Returns the parser of an argument that names a device.
pub(crate) fn devices() -> Offer {
    offer(DEVICES.iter().map(String::as_str))
}

impl TypedValueParser for Offer {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = self.values.iter().copied();
        Some(Box::new(values.map(PossibleValue::new)))
    }
}
