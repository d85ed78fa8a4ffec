//! Where profiles of kernels are kept.

use super::ConfigError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Profiles: how long blocks of kernels last, learnt while they run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfilesConfig {
    /// File that keeps them while the service is down, such as `/var/lib/gridmux/profiles`; an absolute path. Its
    /// folder is made, with mode 0750, where it is missing and the one above it is there. The file is of one device.
    /// Without it they last as long as the service.
    pub file: Option<PathBuf>,
}

impl ProfilesConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        check_file("profiles.file", self.file.as_deref())
    }
}

/// Checks that a file that the service keeps is named by an absolute path.
pub(super) fn check_file(key: &str, file: Option<&Path>) -> Result<(), ConfigError> {
    match file {
        Some(file) if !file.is_absolute() || file.file_name().is_none() => {
            let message = format!("{file:?} must be an absolute path of a file");
            Err(ConfigError::value(key, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn the_file_is_an_absolute_path_or_none() {
        let parse = |value: &str| {
            Config::parse(&format!("schema_version = 1\n[profiles]\n{value}\n"))
                .map(|config| config.profiles.file)
                .map_err(|error| error.to_string())
        };
        assert_eq!(parse(""), Ok(None));
        let file = "/var/lib/gridmux/profiles";
        assert_eq!(parse(&format!("file = {file:?}")), Ok(Some(file.into())));
        for bad in ["profiles", "", "/", "/var/.."] {
            let error = parse(&format!("file = {bad:?}")).unwrap_err();
            assert!(error.contains("profiles.file"), "{bad}: {error}");
        }
        assert!(parse("files = \"/x\"").unwrap_err().contains("files"));
    }
}
