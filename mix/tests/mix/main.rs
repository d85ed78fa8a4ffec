//! Policies in charge of executors on virtual time: the conformance suite on both, whole mixes, and what drivers do.

mod bench;
mod event_conformance;
mod guard;
mod load;
mod model_conformance;
mod model_policies;
mod model_shares;
mod queued;
mod stand_in;
mod starved;
mod switches;
mod uses;
