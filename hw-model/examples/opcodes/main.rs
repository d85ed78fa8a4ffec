//! Which combinations of opcode, type and modifiers the model executes: each is put into a kernel of its own and
//! loaded. Prints one line a combination: the mnemonic, then `implemented` or why it was refused.
//!
//! `cargo xtask coverage opcodes` runs this and joins it with what the tests report.
//! Rule: nothing here says what is implemented; the loader does.
//! The combinations stand in `table.txt`, whose head says how to read it.

use gridmux_hw_model::{Gpu, GpuConfig};
use std::process::ExitCode;

const TABLE: &str = include_str!("table.txt");

/// Returns every way to choose from the braces of a pattern.
fn expanded(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (choices, after) = rest.split_once('}').unwrap_or((rest, ""));
    let tails = expanded(after);
    choices
        .split(',')
        .flat_map(|choice| {
            tails
                .iter()
                .map(move |tail| format!("{before}{choice}{tail}"))
        })
        .collect()
}

const EIGHT: &str = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}";

/// Expands an operand list: `@8` stands for a vector of eight registers; `{|, %r3}` for an operand that only `.add`
/// has.
fn operands_of(mnemonic: &str, operands: &str) -> String {
    let third = if mnemonic.ends_with(".add") {
        ", %r3"
    } else {
        ""
    };
    operands.replace("@8", EIGHT).replace("{|, %r3}", third)
}

fn kernel(mnemonic: &str, operands: &str) -> String {
    // Only chips before sm_70 shuffle and vote without a member mask (PTX ISA section 9.7.9, from version 6.4 on).
    let without_mask =
        ["shfl.", "vote."].iter().any(|w| mnemonic.starts_with(w)) && !mnemonic.contains(".sync");
    let target = if without_mask { "sm_60" } else { "sm_100a" };
    format!(
        ".version 8.8\n.target {target}\n.address_size 64\n.func f()\n{{\nret;\n}}\n.visible .entry k()\n{{\n\
         .reg .pred %p<4>;\n.reg .b16 %h<8>;\n\
         .reg .b32 %r<64>;\n.reg .f32 %f<8>;\n.reg .b64 %l<8>;\n.reg .f64 %d<8>;\n.reg .b128 %w<4>;\n\
         {mnemonic} {operands};\nEND:\nret;\n}}\n"
    )
}

fn verdict(gpu: &mut Gpu, domain: gridmux_hw_model::DomainId, text: &str) -> Result<(), String> {
    let module = gridmux_ptx::Module::parse(text).map_err(|e| e.to_string())?;
    let program = module.decode().map_err(|e| e.to_string())?;
    let loaded = gpu
        .load(domain, &program, text.as_bytes())
        .map_err(|e| e.to_string())?;
    gpu.unload(&loaded);
    Ok(())
}

fn main() -> ExitCode {
    let Ok(config) = GpuConfig::builtin("h200") else {
        return ExitCode::FAILURE;
    };
    let mut gpu = Gpu::new(config);
    let Ok(domain) = gpu.memory_mut().create_domain(1 << 30) else {
        return ExitCode::FAILURE;
    };
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for row in TABLE.lines().filter(is_row) {
        let (pattern, operands) = row.split_once(' ').unwrap_or((row, ""));
        for mnemonic in expanded(pattern) {
            let text = kernel(&mnemonic, &operands_of(&mnemonic, operands));
            match verdict(&mut gpu, domain, &text) {
                Ok(()) => println!("{mnemonic}\timplemented"),
                Err(reason) => println!("{mnemonic}\t{}", reason.replace(['\n', '\t'], " ")),
            }
        }
    }
    ExitCode::SUCCESS
}
