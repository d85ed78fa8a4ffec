//! The client against a mediator in a thread that speaks the real protocol.
//!
//! Rule: a test has a mediator of its own, on a socket in a folder of its own.

mod client;
mod mock;
mod threads;
