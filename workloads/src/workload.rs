//! The table of workloads, and how a launch is made from an entry of it.

use crate::case::{Arg, Case, Reference};
use crate::kernels;
use crate::params::{BadParams, Params, Size};
use crate::verify::Expected;
use serde::Serialize;
use std::fmt;

/// The largest parameters a workload takes: beyond them its 32-bit index arithmetic would wrap.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Greatest [`Params::elements`].
    pub elements: u32,
    /// Greatest [`Params::rounds`].
    pub rounds: u32,
}

impl Limits {
    /// Returns the limits of these two parameters.
    pub(crate) const fn of(elements: u32, rounds: u32) -> Self {
        Self { elements, rounds }
    }
}

/// What a kernel needs most of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Issue slots.
    Compute,
    /// Memory bandwidth.
    Memory,
    /// What the first-level cache keeps for it.
    Cache,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Cache => "cache",
        })
    }
}

/// One kernel with its source of launches.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Name on command lines and in tables; also the stem of its files in `workloads/cuda` and `workloads/ptx`.
    pub name: &'static str,
    /// One line on what the kernel stresses.
    pub summary: &'static str,
    /// What the kernel needs most of, as `hw-model/tests/hw_model/classes.rs` measures it.
    pub class: Class,
    /// Name of the `.entry` in [`Workload::ptx`].
    pub entry: &'static str,
    /// The PTX module, for `sm_80`.
    pub ptx: &'static str,
    /// What [`Params::elements`] counts.
    pub elements: &'static str,
    /// What [`Params::rounds`] counts, or `None` if the kernel ignores it.
    pub rounds: Option<&'static str>,
    /// The largest parameters it takes.
    pub limits: Limits,
    pub(crate) sizes: [(u32, u32); 3],
    pub(crate) build: fn(Params) -> Case,
}

impl Workload {
    /// Returns the parameters that stand for `size`.
    #[must_use]
    pub fn params(&self, size: Size, seed: u64) -> Params {
        let (elements, rounds) = match size {
            Size::Tiny => self.sizes[0],
            Size::Small => self.sizes[1],
            Size::Large => self.sizes[2],
        };
        Params {
            elements,
            rounds,
            seed,
        }
    }

    /// Returns a launch of the given size; equal arguments give equal bytes.
    #[must_use]
    pub fn case(&self, size: Size, seed: u64) -> Case {
        (self.build)(self.params(size, seed))
    }

    /// Returns a launch of the kernel without dynamic shared memory.
    pub(crate) fn launch(
        &self,
        params: Params,
        grid: [u32; 3],
        block: [u32; 3],
        args: Vec<Arg>,
        reference: fn(&Params, &[Arg]) -> Vec<Expected>,
    ) -> Case {
        Case {
            workload: self.name,
            entry: self.entry,
            ptx: self.ptx,
            grid,
            block,
            dynamic_shared_bytes: 0,
            args,
            params,
            reference: Reference::Computed(reference),
        }
    }

    /// Returns a launch of chosen dimensions.
    ///
    /// # Errors
    /// [`BadParams`] if `elements` is zero or a parameter is over [`Workload::limits`].
    pub fn case_with(&self, params: Params) -> Result<Case, BadParams> {
        let limits = self.limits;
        for (key, what, value, least, most) in [
            (
                "elements",
                Some(self.elements),
                params.elements,
                1,
                limits.elements,
            ),
            ("rounds", self.rounds, params.rounds, 0, limits.rounds),
        ] {
            if let Some(what) = what
                && !(least..=most).contains(&value)
            {
                return Err(BadParams {
                    workload: self.name,
                    key,
                    what,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok((self.build)(params))
    }
}

/// Returns every workload, in the order in which tables show them.
#[must_use]
pub fn workloads() -> &'static [Workload] {
    &kernels::ALL
}

/// Returns the workload of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Workload> {
    workloads().iter().find(|workload| workload.name == name)
}
