//! A configuration that changes while its service runs.
//!
//! Rule: a change ends when the service's log says what came of it, so what follows sees the new configuration.

use crate::service::Service;
use gridmux_testkit::until;
use nix::sys::signal::{Signal, kill};

/// The log's words for a reading that was applied.
pub const APPLIED: &str = "the configuration was read again";
/// The log's words for a reading that was refused.
pub const REFUSED: &str = "the configuration is not applied";

fn readings(service: &Service) -> usize {
    let log = service.log();
    log.matches(APPLIED).count() + log.matches(REFUSED).count()
}

/// Has the service read its configuration again, and returns what it logged meanwhile.
///
/// # Panics
/// If it does not.
#[must_use]
pub fn reload(service: &Service) -> String {
    let (before, from) = (readings(service), service.log().len());
    kill(service.pid(), Signal::SIGHUP).expect("the service is there");
    until("the end of a reload", || {
        (readings(service) > before).then_some(())
    });
    service.log()[from..].to_owned()
}

/// Changes the configuration and has the service read it; returns what it logged meanwhile.
///
/// # Panics
/// If the configuration is not applied.
pub fn change(service: &Service, edit: impl FnOnce(String) -> String) -> String {
    service.edit_configuration(edit);
    let log = reload(service);
    assert!(log.contains(APPLIED), "{log}");
    log
}

/// Takes a tenant out of the text of a configuration.
#[must_use]
pub fn without(text: &str, tenant: &str) -> String {
    let mut parts = text.split("[[tenant]]\n");
    let head = parts.next().unwrap_or_default().to_owned();
    let name = format!("name = {tenant:?}\n");
    let kept = parts.filter(|part| !part.starts_with(&name));
    kept.fold(head, |text, part| format!("{text}[[tenant]]\n{part}"))
}

/// Adds a tenant to the text of a configuration.
#[must_use]
pub fn with(text: &str, tenant: &str) -> String {
    format!("{text}[[tenant]]\nname = {tenant:?}\n")
}
