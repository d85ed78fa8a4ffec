//! The modelled GPU without timing: kernels run at the host's full speed, and time is an estimate.
//!
//! A thread of its own gives each client's work on the device short turns, one after another: a launch keeps its place
//! between blocks and instructions, a copy between pieces. So a kernel that never ends keeps nobody else from being
//! served, and ends at its budget.
//!
//! - **Shares.** Processor time is divided among the clients with work on the device in proportion to the part of the
//!   device that their launches would hold, which is what policies give out ([`lanes`]).
//! - **Clock.** It passes by what the work done would take by the chip's throughput alone
//!   ([`GpuConfig::estimated_cycles`](gridmux_hw_model::GpuConfig::estimated_cycles)), in which an instruction that
//!   costs the host much counts as several ([`running`]), and with wall time while the device is idle ([`clock`]). The
//!   dispatcher takes it for a real clock: there are no permits, and it waits for nobody.
//! - **Order.** Blocks of a piece begin in ascending order on one thread, and one that waits gives way to others of its
//!   piece, as many as the device would hold ([`FunctionalRun`](gridmux_hw_model::FunctionalRun)), so that atomic
//!   operations of one piece have a fixed order; how pieces of different lanes are interleaved depends on the host.
//!   Launches whose blocks may wait for later ones go as one piece.
//!
//! Rules: the lock is held for one turn at most; a launch is checked against the limits of the description as on the
//! timed device.

mod clock;
mod lanes;
mod running;
mod thread;

pub(super) use thread::FunctionalThread;
