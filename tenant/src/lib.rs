//! The tenant's side: a safe Rust client of the mediator.
