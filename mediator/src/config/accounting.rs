//! Where accounts of use are kept.

use super::ConfigError;
use super::profiles::check_file;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Accounts: what tenants, users and jobs used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccountingConfig {
    /// File of the database, such as `/var/lib/gridmux/usage.redb`; an absolute path. Its folder is made, with mode
    /// 0750, where it is missing and the one above it is there. Without it no accounts are kept.
    pub file: Option<PathBuf>,
}

impl AccountingConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        check_file("accounting.file", self.file.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn the_file_is_an_absolute_path_or_none_and_not_that_of_profiles() {
        let parse = |text: &str| {
            Config::parse(&format!("schema_version = 1\n{text}\n"))
                .map(|config| config.accounting.file)
                .map_err(|error| error.to_string())
        };
        assert_eq!(parse(""), Ok(None));
        let file = "/var/lib/gridmux/usage.redb";
        let named = format!("[accounting]\nfile = {file:?}");
        assert_eq!(parse(&named), Ok(Some(file.into())));
        for bad in ["usage.redb", "", "/", "/var/.."] {
            let error = parse(&format!("[accounting]\nfile = {bad:?}")).unwrap_err();
            assert!(error.contains("accounting.file"), "{bad}: {error}");
        }
        let error = parse(&format!("{named}\n[profiles]\nfile = {file:?}")).unwrap_err();
        assert!(error.contains("profiles.file"), "{error}");
    }
}
