//! The host's vector instructions: every lane function is compiled for three levels and chosen once.
//!
//! Rule: a level is chosen only when `is_x86_feature_detected!` found all of its features, so calling the chosen
//! function is sound for the life of the process.

use super::cx::Cx;
use super::op::{ExecFn, Op};
use std::sync::OnceLock;

/// Levels, from the baseline up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Returns the level to use: the best one of this host, or a lower one that `GRIDMUX_MODEL_ISA` names (`baseline`,
    /// `avx2`, `avx512`), by which tests compare the levels on one host.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let host = Self::detect();
            let asked = std::env::var("GRIDMUX_MODEL_ISA").ok();
            asked
                .and_then(|name| Self::by_name(&name))
                .map_or(host, |level| level.min(host))
        })
    }

    fn by_name(name: &str) -> Option<Self> {
        match name {
            "baseline" => Some(Self::Baseline),
            #[cfg(target_arch = "x86_64")]
            "avx2" => Some(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            "avx512" => Some(Self::Avx512),
            _ => None,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        match (avx512, avx2) {
            (true, _) => Self::Avx512,
            (false, true) => Self::Avx2,
            _ => Self::Baseline,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::Baseline
    }
}

/// One lane function; `run` is inlined into one copy per level.
pub(crate) trait Handler {
    fn run(cx: &mut Cx<'_>, op: &Op);
}

/// Returns the copy of a handler for this host.
pub(crate) fn handler<H: Handler>() -> ExecFn {
    match Isa::best() {
        Isa::Baseline => baseline::<H>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<H>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<H>,
    }
}

/// Returns a handler compiled once, for operations that are rare and gain nothing from vectors.
pub(crate) fn once<H: Handler>() -> ExecFn {
    baseline::<H>
}

fn baseline<H: Handler>(cx: &mut Cx<'_>, op: &Op) {
    H::run(cx, op);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<H: Handler>(cx: &mut Cx<'_>, op: &Op) {
    H::run(cx, op);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn avx512<H: Handler>(cx: &mut Cx<'_>, op: &Op) {
    H::run(cx, op);
}

/// Declares a unit struct that is a [`Handler`].
macro_rules! lane_fn {
    (
        $(#[$doc:meta])* $name:ident $(<$($g:ident: $bound:path),*>)? $([$($c:ident: $ct:ty),*])?,
        |$cx:ident, $op:ident| $body:expr
    ) => {
        $(#[$doc])*
        struct $name<$($($g: $bound,)*)? $($(const $c: $ct,)*)?>($($(std::marker::PhantomData<$g>,)*)?);
        impl<$($($g: $bound,)*)? $($(const $c: $ct,)*)?> $crate::exec::isa::Handler for $name<$($($g,)*)? $($($c,)*)?> {
            #[inline(always)]
            fn run($cx: &mut $crate::exec::cx::Cx<'_>, $op: &$crate::exec::op::Op) {
                $body
            }
        }
    };
}
pub(crate) use lane_fn;
