//! PTX: the program's own kernels.

use std::fmt::Write as _;

/// Kernels that look at clocks and words while they run.
pub const PROBE: &str = include_str!("../kernels/probe.ptx");

/// A kernel that does nothing, of `hw-model/validation`.
pub const EMPTY: &str = include_str!("../../hw-model/validation/kernels/empty.ptx");

/// Kernels whose blocks write stamps, with places for what [`stamping`] fills in.
const STAMP: &str = include_str!("../kernels/stamp.ptx");

/// When an early-launched ([`Function::launch_early`](crate::cuda::Function::launch_early)) successor of a stamping
/// kernel may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Successor {
    /// When it has ended.
    AtEnd,
    /// When all of its blocks have started; needs a device of compute capability 9.0.
    AtStart,
}

/// Returns kernels whose blocks write stamps, of which `stamp` keeps that many registers (at most 256) beside its own.
#[must_use]
pub fn stamping(kept: u32, successor: Successor) -> String {
    let (mut keep, mut use_) = (String::new(), String::new());
    for n in 0..kept.min(256) {
        // Writing to a string does not fail.
        let _ = writeln!(keep, "    ld.volatile.global.u32 %k{n}, [%rd12+{}];", 4 * n);
        let _ = writeln!(use_, "    add.u32 %r4, %r4, %k{n};");
    }
    let (version, target, early) = match successor {
        Successor::AtEnd => ("7.0", "sm_70", ""),
        Successor::AtStart => ("7.8", "sm_90", "griddepcontrol.launch_dependents;"),
    };
    [
        ("${version}", version),
        ("${target}", target),
        ("${early}", early),
        ("${keep}", &keep),
        ("${use}", &use_),
    ]
    .iter()
    .fold(STAMP.to_owned(), |text, (place, filling)| {
        text.replace(place, filling)
    })
}

#[cfg(test)]
mod tests {
    use super::{Successor, stamping};
    use gridmux_ptx::Module;

    #[test]
    fn every_text_of_stamping_kernels_is_whole() {
        for (kept, successor) in [
            (0, Successor::AtEnd),
            (128, Successor::AtEnd),
            (0, Successor::AtStart),
        ] {
            let text = stamping(kept, successor);
            assert!(!text.contains("${"), "{text}");
            let module = Module::parse(text.as_bytes()).unwrap().decode().unwrap();
            for (kernel, parameters) in [("stamp", 4), ("reread", 4)] {
                let (_, found) = module.kernel(kernel).unwrap();
                assert_eq!(found.params.len(), parameters, "{kernel}");
            }
            let loads = text.matches("ld.volatile").count();
            assert_eq!(loads, kept as usize);
        }
    }
}
