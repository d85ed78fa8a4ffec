//! Instructions that chains and rates are measured of.
//!
//! Rules: an instruction's destination is also a source, so that a chain of it is one of dependent instructions. No
//! compiler knows a value ahead, and integers are added, multiplied and compared with those of a neighbouring chain,
//! because a compiler makes one instruction of many that combine a value with the same one. Floating-point numbers are
//! divided by 1, so that the short sequence serves every time.
//!
//! Wide: an instruction stands in one string.

use serde::Deserialize;

macro_rules! ops {
    ($($variant:ident $name:literal $flops:literal $text:literal,)*) => {
        /// An instruction.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub enum Op {
            $(
                #[doc = $text]
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl Op {
            /// Every instruction.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns its name, as files have it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the floating-point operations of one warp instruction, for matrices those of the product; 0
            /// where nobody counts them.
            #[must_use]
            pub const fn flops(self) -> u32 {
                match self {
                    $(Self::$variant => $flops,)*
                }
            }

            /// Returns its PTX, in which `#` is the chain's number, `#a` to `#h` the parts of its accumulator, and `@`
            /// the number of a neighbouring chain.
            const fn template(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

ops! {
    AddU32 "add.u32" 0 "add.u32 %r3#, %r3#, %r3@;",
    AndB32 "and.b32" 0 "and.b32 %r3#, %r3#, %r3@;",
    MulLoU32 "mul.lo.u32" 0 "mul.lo.u32 %r3#, %r3#, %r3@;",
    MadLoU32 "mad.lo.u32" 0 "mad.lo.u32 %r3#, %r3#, %r2, %r2;",
    MinS32 "min.s32" 0 "min.s32 %r3#, %r3#, %r3@;",
    DivS32 "div.s32" 0 "div.s32 %r3#, %r3#, %r2;",
    RemS32 "rem.s32" 0 "rem.s32 %r3#, %r3#, %r2;",
    PopcB32 "popc.b32" 0 "popc.b32 %r3#, %r3#;",
    ClzB32 "clz.b32" 0 "clz.b32 %r3#, %r3#;",
    BrevB32 "brev.b32" 0 "brev.b32 %r3#, %r3#;",
    AddU64 "add.u64" 0 "add.u64 %rd1#, %rd1#, %rd1@;",
    MulLoU64 "mul.lo.u64" 0 "mul.lo.u64 %rd1#, %rd1#, %rd1@;",
    ShflIdx "shfl.sync.idx.b32" 0 "shfl.sync.idx.b32 %r3#, %r3#, %r3#, 31, -1;",
    AddF32 "add.f32" 32 "add.f32 %f3#, %f3#, %f2;",
    MulF32 "mul.f32" 32 "mul.f32 %f3#, %f3#, %f2;",
    FmaF32 "fma.rn.f32" 64 "fma.rn.f32 %f3#, %f3#, %f2, %f2;",
    DivF32 "div.rn.f32" 0 "div.rn.f32 %f3#, %f3#, %f1;",
    RcpF32 "rcp.rn.f32" 0 "rcp.rn.f32 %f3#, %f3#;",
    SqrtF32 "sqrt.rn.f32" 0 "sqrt.rn.f32 %f3#, %f3#;",
    RcpApprox "rcp.approx.f32" 0 "rcp.approx.f32 %f3#, %f3#;",
    SqrtApprox "sqrt.approx.f32" 32 "sqrt.approx.f32 %f3#, %f3#;",
    RsqrtApprox "rsqrt.approx.f32" 0 "rsqrt.approx.f32 %f3#, %f3#;",
    Ex2Approx "ex2.approx.f32" 0 "ex2.approx.f32 %f3#, %f3#;",
    Ex2Ftz "ex2.approx.ftz.f32" 0 "ex2.approx.ftz.f32 %f3#, %f3#;",
    Lg2Approx "lg2.approx.f32" 0 "lg2.approx.f32 %f3#, %f3#;",
    SinApprox "sin.approx.f32" 0 "sin.approx.f32 %f3#, %f3#;",
    AddF64 "add.f64" 32 "add.f64 %d1#, %d1#, %d2;",
    MulF64 "mul.f64" 32 "mul.f64 %d1#, %d1#, %d2;",
    FmaF64 "fma.rn.f64" 64 "fma.rn.f64 %d1#, %d1#, %d2, %d2;",
    DivF64 "div.rn.f64" 0 "div.rn.f64 %d1#, %d1#, %d1;",
    SqrtF64 "sqrt.rn.f64" 0 "sqrt.rn.f64 %d1#, %d1#;",
    FmaF16x2 "fma.rn.f16x2" 128 "fma.rn.f16x2 %r3#, %r3#, %r2, %r2;",
    MmaF16K8 "mma.m16n8k8.f16.f16" 2048
        "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r#a, %r#b}, {%r21, %r22}, {%r25}, {%r#a, %r#b};",
    MmaF16K16 "mma.m16n8k16.f16.f16" 4096
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r#a, %r#b}, {%r21, %r22, %r23, %r24}, {%r25, %r26}, {%r#a, %r#b};",
    MmaF32K8 "mma.m16n8k8.f32.f16" 2048
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f#a, %f#b, %f#c, %f#d}, {%r21, %r22}, {%r25}, {%f#a, %f#b, %f#c, %f#d};",
    MmaF32K16 "mma.m16n8k16.f32.f16" 4096
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f#a, %f#b, %f#c, %f#d}, {%r21, %r22, %r23, %r24}, {%r25, %r26}, {%f#a, %f#b, %f#c, %f#d};",
    MmaTf32K4 "mma.m16n8k4.f32.tf32" 1024
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f#a, %f#b, %f#c, %f#d}, {%r21, %r22}, {%r25}, {%f#a, %f#b, %f#c, %f#d};",
    MmaTf32K8 "mma.m16n8k8.f32.tf32" 2048
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f#a, %f#b, %f#c, %f#d}, {%r21, %r22, %r23, %r24}, {%r25, %r26}, {%f#a, %f#b, %f#c, %f#d};",
    MmaS8K16 "mma.m16n8k16.s32.s8" 4096
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r#a, %r#b, %r#c, %r#d}, {%r21, %r22}, {%r25}, {%r#a, %r#b, %r#c, %r#d};",
    MmaS8K32 "mma.m16n8k32.s32.s8" 8192
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r#a, %r#b, %r#c, %r#d}, {%r21, %r22, %r23, %r24}, {%r25, %r26}, {%r#a, %r#b, %r#c, %r#d};",
    MmaF64 "mma.m8n8k4.f64" 512
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d#a, %d#b}, {%d2}, {%d2}, {%d#a, %d#b};",
    WmmaF32 "wmma.m16n16k16.f32.f16" 8192
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f#a, %f#b, %f#c, %f#d, %f#e, %f#f, %f#g, %f#h}, {%r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28}, {%r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28}, {%f#a, %f#b, %f#c, %f#d, %f#e, %f#f, %f#g, %f#h};",
    WmmaF16 "wmma.m16n16k16.f16.f16" 8192
        "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r#a, %r#b, %r#c, %r#d}, {%r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28}, {%r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28}, {%r#a, %r#b, %r#c, %r#d};",
}

/// Independent chains that are measured side by side at most.
pub const CHAINS: usize = 4;

impl Op {
    /// Returns the nth instruction of `chains` chains in turn.
    #[must_use]
    pub fn text(self, n: usize, chains: usize) -> String {
        let (chain, neighbour) = match self.template().contains('@') {
            // A single chain of these alternates between two registers.
            true => (n % chains.max(2), (n + 1) % chains.max(2)),
            false => (n % chains, 0),
        };
        let mut text = self.template().replace('@', &neighbour.to_string());
        let wide = text.contains("%d#");
        for (part, letter) in "abcdefgh".chars().enumerate() {
            // Accumulators lie where no other register of the loop does.
            let register = if wide {
                10 + 2 * chain + part
            } else {
                40 + 8 * chain + part
            };
            text = text.replace(&format!("#{letter}"), &register.to_string());
        }
        text.replace('#', &chain.to_string())
    }

    /// Returns the instructions that give every register that it reads a value, from `%r6`, which is 0; integers
    /// differ from lane to lane, because a compiler leaves out shuffles of equal ones.
    #[must_use]
    pub fn setup() -> String {
        let mut text = String::new();
        let mut line = |one: String| {
            text += &one;
            text += "\n    ";
        };
        for n in 0..CHAINS {
            line(format!("add.u32 %r3{n}, %r3, 7;"));
            line(format!("mov.f32 %f3{n}, %f1;"));
            line(format!("cvt.u64.u32 %rd1{n}, %r3{n};"));
        }
        (10..18).for_each(|n| line(format!("mov.f64 %d{n}, %d1;")));
        (21..29).for_each(|n| line(format!("mov.u32 %r{n}, %r6;")));
        for n in 40..40 + 8 * CHAINS {
            line(format!("mov.u32 %r{n}, %r6;"));
            line(format!("mov.b32 %f{n}, %r6;"));
        }
        text
    }
}

impl Op {
    /// Returns instructions that read every result, so that no compiler leaves the measured ones out.
    #[must_use]
    pub fn used() -> String {
        let mut text = String::new();
        let mut add = |one: String, register: &str| {
            text += &format!("{one}add.u32 %r90, %r90, {register};\n    ");
        };
        for n in 0..CHAINS {
            add(String::new(), &format!("%r3{n}"));
            add(format!("cvt.rzi.u32.f32 %r91, %f3{n};\n    "), "%r91");
            add(format!("mov.b64 {{%r91, %r92}}, %rd1{n};\n    "), "%r91");
            add(String::new(), "%r92");
        }
        for n in 10..18 {
            add(format!("cvt.rzi.u32.f64 %r91, %d{n};\n    "), "%r91");
        }
        for n in 40..40 + 8 * CHAINS {
            add(String::new(), &format!("%r{n}"));
            add(format!("cvt.rzi.u32.f32 %r91, %f{n};\n    "), "%r91");
        }
        text
    }
}
