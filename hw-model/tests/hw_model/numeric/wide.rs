//! Accesses wider than 64 bits a lane, and the space of constant variables (PTX ISA sections 9.7.9 and 9.7.13), on both
//! engines.

use crate::numeric::values::integers;
use crate::support::opcode::report;
use crate::support::{Bench, functional};

/// Runs a kernel of one warp on both engines, with `words` 64-bit words of input and as many of output.
fn both(body: &str, input: &[u64]) -> [Vec<u64>; 2] {
    let text = format!(
        ".version 8.8\n.target sm_100\n.address_size 64\n.const .align 8 .b64 fixed[4];\n\
         .global .align 8 .b64 free[4];\n\
         .const .align 4 .b32 last;\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n.reg .pred %p<4>;\n\
         .reg .b32 %r<32>;\n.reg .b64 %l<16>;\n.reg .b128 %w<8>;\n.shared .align 16 .b8 cells[1024];\n\
         ld.param.u64 %l0, [in];\nld.param.u64 %l1, [out];\nmov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
    );
    let run = |timed: bool| {
        let mut bench = Bench::small();
        let kernel = bench.try_kernel(&text, "k");
        let kernel = kernel.unwrap_or_else(|error| panic!("{body}: {error}"));
        let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
        let addresses = [bench.buffer(&bytes), bench.buffer(&vec![0; bytes.len()])];
        let params: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
        let launch = bench.simple(&kernel, 1, 32, &params);
        if timed {
            bench.timed(launch);
        } else {
            functional(&mut bench, &launch);
        }
        let mut data = vec![0; bytes.len()];
        let memory = bench.gpu.memory();
        memory
            .read(bench.domain, addresses[1], &mut data)
            .expect("inside");
        let words = data.chunks_exact(8);
        words
            .map(|c| u64::from_le_bytes(c.try_into().expect("eight")))
            .collect()
    };
    [run(false), run(true)]
}

#[test]
fn eight_words_at_once() {
    let input = &integers(64, 1)[0];
    let input: Vec<u64> = (0..128)
        .map(|n| input[n % input.len()] ^ n as u64)
        .collect();
    for ty in ["b32", "u32", "s32", "f32"] {
        let registers: Vec<String> = (0..8).map(|n| format!("%r{}", 10 + n)).collect();
        let turned: Vec<&str> = registers.iter().rev().map(String::as_str).collect();
        // Stored in reverse, and read again in the order of lanes from behind while the store is on its way.
        let body = format!(
            "mul.wide.u32 %l2, %r0, 32;\nadd.u64 %l3, %l0, %l2;\nadd.u64 %l4, %l1, %l2;\n\
             ld.global.v8.{ty} {{{all}}}, [%l3];\nst.global.v8.{ty} [%l4], {{{back}}};\n\
             ld.global.v8.{ty} {{_, {most}}}, [%l4];\nadd.u32 %r11, %r11, 1;\nadd.u32 %r17, %r17, 2;\n\
             st.global.v8.{ty} [%l4], {{%r0, {most}}};",
            all = registers.join(", "),
            back = turned.join(", "),
            most = registers[1..].join(", "),
        );
        let word = |n: usize| (input[n / 2] >> (32 * (n % 2))) as u32;
        let want = |n: usize| {
            let (lane, at) = (n / 8, n % 8);
            match at {
                0 => lane as u32,
                1 => word(lane * 8 + 6).wrapping_add(1),
                7 => word(lane * 8).wrapping_add(2),
                _ => word(lane * 8 + 7 - at),
            }
        };
        for got in both(&body, &input) {
            for (n, got) in got.iter().enumerate() {
                let low = u64::from(want(2 * n));
                assert_eq!(
                    *got,
                    low | u64::from(want(2 * n + 1)) << 32,
                    "{ty}, word {n}"
                );
            }
        }
        report(&format!("ld.global.v8.{ty} "));
        report(&format!("st.global.v8.{ty} "));
    }
}

#[test]
fn sixteen_bytes_swapped_at_once() {
    // Four lanes share a cell and take their turns; each expects the value of the lane before it, or one that is wrong
    // in one half.
    let value = |lane: u64| [lane * 0x1_0000_0001, !lane];
    for space in ["global", "shared", ""] {
        let dot = if space.is_empty() {
            String::new()
        } else {
            format!(".{space}")
        };
        let cell = if space == "global" { "%l5" } else { "%l4" };
        let generic = if space.is_empty() {
            "cvta.shared.u64 %l4, %l4;\n"
        } else {
            ""
        };
        let body = format!(
            "shr.u32 %r1, %r0, 2;\nand.b32 %r2, %r0, 3;\nmov.u64 %l4, cells;\nmad.wide.u32 %l4, %r1, 16, %l4;\n\
             {generic}\
             mad.wide.u32 %l5, %r1, 16, %l1;\nadd.u64 %l5, %l5, 512;\nmul.wide.u32 %l2, %r0, 16;\n\
             add.u64 %l3, %l0, %l2;\n\
             ld.global.b128 %w1, [%l3];\nld.global.b128 %w2, [%l3+512];\nmov.u64 %l6, 0;\nmov.b128 %w3, {{%l6, %l6}};\n\
             setp.eq.u32 %p1, %r2, 0;\n@%p1 atom{dot}.exch.b128 _, [{cell}], %w3;\nbar.sync 0;\n\
             atom{dot}.cas.b128 %w0, [{cell}], %w1, %w2;\nadd.u64 %l3, %l1, %l2;\nst.global.b128 [%l3], %w0;\n\
             bar.sync 0;\n\
             @%p1 atom{dot}.exch.b128 %w0, [{cell}], %w3;\n@%p1 st.global.b128 [%l5], %w0;"
        );
        // Expected values of all lanes, then new ones.
        let mut input = vec![0; 128];
        let mut want = vec![0; 128];
        for cell in 0..8_usize {
            let mut held = [0, 0];
            for part in 0..4 {
                let lane = cell * 4 + part;
                let mut expected = if part == 0 {
                    [0, 0]
                } else {
                    value(lane as u64 - 1)
                };
                // Lanes of some cells are wrong in the low or in the high word.
                match (cell % 4, part) {
                    (1, 2) => expected[0] ^= 1 << 40,
                    (2, 1) => expected[1] ^= 1,
                    (3, 0) => expected = [u64::MAX, 0],
                    _ => {}
                }
                let new = value(lane as u64);
                input[2 * lane..2 * lane + 2].copy_from_slice(&expected);
                input[64 + 2 * lane..66 + 2 * lane].copy_from_slice(&new);
                want[2 * lane..2 * lane + 2].copy_from_slice(&held);
                if held == expected {
                    held = new;
                }
            }
            want[64 + 2 * cell..66 + 2 * cell].copy_from_slice(&held);
        }
        for (engine, got) in both(&body, &input).into_iter().enumerate() {
            assert_eq!(got, want, "{space}, engine {engine}");
        }
        report(&format!("atom{dot}.cas.b128 "));
        report(&format!("atom{dot}.exch.b128 "));
    }
}

#[test]
fn constant_variables_are_a_space_of_their_own() {
    let asked = [("fixed", 8), ("free", 0), ("last", 3), ("fixed", 32)];
    let mut body = "mul.wide.u32 %l2, %r0, 32;\nadd.u64 %l3, %l1, %l2;\n".to_owned();
    for (n, (name, offset)) in asked.into_iter().enumerate() {
        let space = if name == "free" { "global" } else { "const" };
        body += &format!(
            "mov.u64 %l4, {name};\ncvta.{space}.u64 %l4, %l4;\nadd.u64 %l4, %l4, {offset};\nisspacep.const %p1, %l4;\n\
             isspacep.global %p2, %l4;\nselp.u64 %l5, 1, 0, %p1;\nselp.u64 %l6, 2, 0, %p2;\nadd.u64 %l5, %l5, %l6;\n\
             st.global.u64 [%l3+{}], %l5;\n",
            8 * n
        );
    }
    for got in both(&body, &[0; 128]) {
        // The last one is behind the variable's end, and so in no constant variable.
        assert!(got.chunks(4).all(|lane| lane == [1, 2, 1, 2]), "{got:?}");
    }
    report("isspacep.const ");
}
