//! What `ptxas` makes several instructions of, where a chip has none that does it alone.
//!
//! Integers of 64 bits lie in two registers: additions carry, products are sums of four partial ones, comparisons
//! look at both halves. An approximation that keeps subnormal numbers compares its argument, scales it before the
//! special-function unit and its result behind it; a sine has its argument brought to turns first. All this is what
//! nvdisasm shows of code for Volta and later. A product that is added to right behind it is one instruction with
//! that (`IMAD.WIDE`; [`super::lower`]).
//! Rules: instructions of a sequence wait for one another along its longest chain only; the others add what they take
//! of the unit. The sequence takes one issue slot. What runs in the units of single precision adds its latency and
//! takes nothing of them: scalings, and the upper half of a 64-bit sum (`IMAD.X`), which counts as one instruction
//! therefore. A kernel that mixes many of these with single precision runs somewhat too fast. `ptxas` drops a scaling
//! that it proves needless, as that of an exponential of an exponential, which is never negative; the model keeps it.

use crate::config::{Pipeline, Pipelines};
use gridmux_ptx::decode::{Instruction, Opcode, Part, ScalarType as T};

/// A sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expansion {
    /// Instructions of the pipeline that the PTX instruction belongs to.
    count: u32,
    /// How many of them wait for one another.
    depth: u32,
    /// Single-precision multiplications before and behind them.
    scalings: u32,
    /// Whether a comparison says first if there is something to multiply.
    guarded: bool,
}

const ONE: Expansion = Expansion {
    count: 1,
    depth: 1,
    scalings: 0,
    guarded: false,
};

impl Expansion {
    /// Returns what becomes of an instruction.
    pub(super) fn of(i: &Instruction) -> Self {
        let wide = |ty: &T| matches!(ty, T::U64 | T::S64 | T::B64);
        if i.mods.types.first().is_some_and(wide) {
            return Self::of_wide(i);
        }
        let scaled = match (i.opcode, i.mods.types.first()) {
            (Opcode::Sin | Opcode::Cos, Some(T::F32)) => return Self { scalings: 1, ..ONE },
            (Opcode::Ex2 | Opcode::Lg2 | Opcode::Rcp | Opcode::Rsqrt, Some(T::F32))
                if i.mods.approx && !i.mods.ftz =>
            {
                true
            }
            (Opcode::Sqrt, Some(T::F32)) => i.mods.approx && !i.mods.ftz,
            (Opcode::Div, Some(T::F32)) => i.mods.full || i.mods.approx && !i.mods.ftz,
            _ => false,
        };
        if scaled {
            Self {
                scalings: 2,
                guarded: true,
                ..ONE
            }
        } else {
            ONE
        }
    }

    fn of_wide(i: &Instruction) -> Self {
        let (count, depth) = match (i.opcode, i.mods.part) {
            (Opcode::Mul | Opcode::Mad, Some(Part::Lo)) => (4, 3),
            (Opcode::Mul | Opcode::Mad, Some(Part::Hi)) => (6, 4),
            (Opcode::Div | Opcode::Rem, _) => (4, 4),
            (Opcode::Min | Opcode::Max, _) => (4, 3),
            (Opcode::Setp | Opcode::Set | Opcode::Popc | Opcode::Clz | Opcode::Bfind, _) => (2, 2),
            (Opcode::Add | Opcode::Sub, _) => (1, 1),
            (
                Opcode::Neg
                | Opcode::And
                | Opcode::Or
                | Opcode::Xor
                | Opcode::Not
                | Opcode::Shl
                | Opcode::Shr
                | Opcode::Brev
                | Opcode::Selp,
                _,
            ) => (2, 1),
            (Opcode::Abs, _) => (3, 2),
            _ => (1, 1),
        };
        Self {
            count,
            depth,
            ..ONE
        }
    }

    /// Returns the timing of the whole sequence, from that of one of its instructions.
    pub(super) fn timing(self, one: Pipeline, p: &Pipelines) -> Pipeline {
        let beside = (self.count - self.depth) * one.interval;
        let guard = u32::from(self.guarded) * p.approximation_guard;
        Pipeline {
            latency: self.depth * one.latency + beside + self.scalings * p.fp32.latency + guard,
            interval: self.count * one.interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Expansion;
    use crate::config::{GpuConfig, Pipeline};

    /// Returns what an instruction takes on an H200 if each of its sequence has a latency of 100 cycles and an interval
    /// of 2.
    fn timing(instruction: &str) -> Pipeline {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n.reg .f32 %f<3>;\n\
             .reg .b64 %rd<3>;\n.reg .pred %p<2>;\n{instruction};\nret;\n}}\n"
        );
        let module = gridmux_ptx::Module::parse(text).expect("it parses");
        let program = module.decode().expect("it decodes");
        let instruction = &program.functions[0].body[0];
        let one = Pipeline {
            latency: 100,
            interval: 2,
        };
        let config = GpuConfig::builtin("h200").expect("built in");
        Expansion::of(instruction).timing(one, &config.pipelines)
    }

    #[test]
    fn approximations_that_keep_subnormal_numbers_are_guarded_and_scaled() {
        let p = GpuConfig::builtin("h200").expect("built in").pipelines;
        let scaled = 100 + p.approximation_guard + 2 * p.fp32.latency;
        assert!(scaled > 100);
        for (instruction, latency) in [
            ("ex2.approx.f32 %f1, %f2", scaled),
            ("ex2.approx.ftz.f32 %f1, %f2", 100),
            ("sqrt.approx.f32 %f1, %f2", scaled),
            ("sqrt.approx.ftz.f32 %f1, %f2", 100),
            ("div.approx.f32 %f1, %f2, %f2", scaled),
            ("div.approx.ftz.f32 %f1, %f2, %f2", 100),
            ("div.full.ftz.f32 %f1, %f2, %f2", scaled),
            ("sin.approx.f32 %f1, %f2", 100 + p.fp32.latency),
            ("add.f32 %f1, %f2, %f2", 100),
        ] {
            let timing = timing(instruction);
            assert_eq!(
                (timing.latency, timing.interval),
                (latency, 2),
                "{instruction}"
            );
        }
    }

    #[test]
    fn integers_of_64_bits_are_sequences_but_for_sums() {
        for (instruction, latency, interval) in [
            ("add.s64 %rd1, %rd2, %rd2", 100, 2),
            ("xor.b64 %rd1, %rd2, %rd2", 102, 4),
            ("setp.lt.s64 %p1, %rd1, %rd2", 200, 4),
            ("mul.lo.s64 %rd1, %rd2, %rd2", 302, 8),
            ("mul.hi.u64 %rd1, %rd2, %rd2", 404, 12),
        ] {
            let timing = timing(instruction);
            assert_eq!(
                (timing.latency, timing.interval),
                (latency, interval),
                "{instruction}"
            );
        }
    }
}
