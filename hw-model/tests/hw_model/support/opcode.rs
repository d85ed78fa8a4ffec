//! One instruction over columns of inputs, compared lane by lane with what it must give.
//!
//! A [`Table`] names the instruction as PTX, the types of its inputs and output, and the inputs themselves; every
//! row runs in a thread of its own. What passed is reported, one mnemonic a line, to the file that
//! `GRIDMUX_OPCODE_REPORT` names: the table of `cargo xtask coverage opcodes` is made from it.

use super::exact::Expected;
use super::{Bench, functional};
use gridmux_workloads::Prng;
use std::io::Write;

/// An instruction under test: it reads `%a`, `%b`, `%c`, `%e` and leaves its result in `%d`; `%p`, `%q`, `%s` are
/// predicates, `%x0` to `%x3` 32-bit, `%h0` to `%h3` 16-bit and `%l0` to `%l3` 64-bit registers. The first
/// instruction is the one that is tested.
pub struct Table<'a> {
    body: String,
    /// Types of the columns, as PTX writes them.
    inputs: &'a [&'a str],
    output: &'a str,
    columns: &'a [Vec<u64>],
}

/// Returns the bytes of a type.
pub fn width(ty: &str) -> usize {
    ty[ty.find(|c: char| c.is_ascii_digit()).expect("a width")..]
        .parse::<usize>()
        .expect("a width")
        / 8
}

fn register_type(ty: &str) -> &str {
    match width(ty) {
        1 => "b16",
        _ => ty,
    }
}

impl<'a> Table<'a> {
    /// Returns the table of an instruction: its PTX, the types of its inputs and of its output, and the inputs. A
    /// mnemonic alone stands for the instruction whose sources are the inputs.
    pub fn new(
        body: &str,
        inputs: &'a [&'a str],
        output: &'a str,
        columns: &'a [Vec<u64>],
    ) -> Self {
        let body = if body.contains(' ') {
            body.to_owned()
        } else {
            let sources = &["%a", "%b", "%c", "%e"][..inputs.len()];
            format!("{body} %d, {};", sources.join(", "))
        };
        Self {
            body,
            inputs,
            output,
            columns,
        }
    }

    /// Runs every row.
    pub fn run(&self) -> Vec<u64> {
        let count = self.columns[0].len();
        let names = ["a", "b", "c", "e"];
        // Only chips before sm_70 shuffle without a member mask (PTX ISA section 9.7.9, from version 6.4 on).
        let without_mask = self.body.contains("shfl.") && !self.body.contains(".sync");
        let target = if without_mask { "sm_60" } else { "sm_100a" };
        let mut ptx = format!(
            ".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 pd"
        );
        for name in names.iter().take(self.inputs.len()) {
            ptx += &format!(", .param .u64 p{name}");
        }
        ptx += ")\n{\n.reg .pred %p, %q, %s;\n.reg .b32 %x<4>;\n.reg .b16 %h<4>;\n.reg .b64 %l<4>;\n\
                .reg .b32 %i<4>;\n.reg .b64 %at<4>;\n";
        for (name, ty) in names.iter().zip(self.inputs) {
            ptx += &format!(".reg .{} %{name};\n", register_type(ty));
        }
        ptx += &format!(".reg .{} %d;\n", register_type(self.output));
        ptx += "mov.u32 %i1, %tid.x;\nmov.u32 %i2, %ctaid.x;\nmad.lo.u32 %i1, %i2, 64, %i1;\n";
        for (name, ty) in names.iter().zip(self.inputs) {
            ptx += &format!(
                "ld.param.u64 %at0, [p{name}];\nmad.wide.u32 %at0, %i1, {}, %at0;\nld.global.b{} %{name}, [%at0];\n",
                width(ty),
                8 * width(ty)
            );
        }
        ptx += &format!(
            "{}\nld.param.u64 %at0, [pd];\nmad.wide.u32 %at0, %i1, {}, %at0;\nst.global.b{} [%at0], %d;\nret;\n}}\n",
            self.body,
            width(self.output),
            8 * width(self.output)
        );
        let mut bench = Bench::small();
        let kernel = bench
            .try_kernel(&ptx, "k")
            .unwrap_or_else(|error| panic!("{}: {error}", self.body));
        let rows = count.next_multiple_of(64);
        let out_width = width(self.output);
        let result = bench.buffer(&vec![0; rows * out_width]);
        let mut params = result.to_le_bytes().to_vec();
        for (ty, column) in self.inputs.iter().zip(self.columns) {
            let mut data: Vec<u8> = column
                .iter()
                .flat_map(|v| v.to_le_bytes()[..width(ty)].to_vec())
                .collect();
            data.resize(rows * width(ty), 0);
            params.extend(bench.buffer(&data).to_le_bytes());
        }
        let blocks = u32::try_from(rows / 64).expect("few");
        let launch = bench.simple(&kernel, blocks, 64, &params);
        functional(&mut bench, &launch);
        let mut data = vec![0; count * out_width];
        bench
            .gpu
            .memory()
            .read(bench.domain, result, &mut data)
            .expect("inside");
        data.chunks_exact(out_width)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..out_width].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            })
            .collect()
    }

    /// Runs every row and compares it.
    pub fn check(&self, want: impl Fn(&[u64]) -> Expected) {
        let got = self.run();
        for (row, got) in got.iter().enumerate() {
            let inputs: Vec<u64> = self.columns.iter().map(|column| column[row]).collect();
            let want = want(&inputs);
            assert!(
                want.holds(*got),
                "{} of {inputs:#x?} gives {got:#x} instead of {want:#x?}",
                self.body
            );
        }
        report(&self.body);
    }

    /// Runs every row and compares each part of `bits` bits with what the same parts of the inputs must give.
    pub fn check_parts(&self, bits: usize, want: impl Fn(&[u64]) -> Expected) {
        let mask = (1 << bits) - 1;
        for (row, got) in self.run().into_iter().enumerate() {
            for shift in (0..8 * width(self.output)).step_by(bits) {
                let part = |column: &Vec<u64>| column[row] >> shift & mask;
                let inputs: Vec<u64> = self.columns.iter().map(part).collect();
                let (got, want) = (got >> shift & mask, want(&inputs));
                assert!(
                    want.holds(got),
                    "{} of {inputs:#x?} gives {got:#x} instead of {want:#x?}",
                    self.body
                );
            }
        }
        report(&self.body);
    }

    /// Checks the same for integers.
    pub fn check_bits(&self, want: impl Fn(&[u64]) -> u64) {
        let bits = 8 * width(self.output);
        let mask = if bits == 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        };
        self.check(|inputs| Expected::Bits(want(inputs) & mask));
    }
}

/// Notes that the first instruction of `body` was compared and right.
pub fn report(body: &str) {
    let Some(path) = std::env::var_os("GRIDMUX_OPCODE_REPORT") else {
        return;
    };
    let mnemonic = body.split([' ', ';']).next().unwrap_or_default();
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    file.and_then(|mut file| writeln!(file, "{mnemonic}"))
        .expect("the report can be written");
}

/// Columns of every combination of edge values, at most `limit` of them, and of as many random ones.
pub fn columns(
    edges: &[&[u64]],
    random: &[&dyn Fn(&mut Prng) -> u64],
    limit: usize,
) -> Vec<Vec<u64>> {
    let mut prng = Prng::new(11);
    let mut out = vec![Vec::new(); edges.len()];
    let all: usize = edges.iter().map(|e| e.len()).product();
    // A step that shares no factor with the number of combinations visits them evenly.
    let step = if all > limit { (all / limit) | 1 } else { 1 };
    for n in 0..all.min(limit) {
        let mut rest = n * step % all;
        for (column, edges) in out.iter_mut().zip(edges) {
            column.push(edges[rest % edges.len()]);
            rest /= edges.len();
        }
    }
    for _ in 0..limit {
        for (column, random) in out.iter_mut().zip(random) {
            column.push(random(&mut prng));
        }
    }
    out
}
