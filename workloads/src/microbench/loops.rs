//! The loop of each measurement.

use super::Loop;
use super::ops::{CHAINS, Op};

/// Instructions of a turn that is one instruction again and again.
pub const LINKS: u32 = 64;
/// Bytes of a shared array that nobody needs.
const NO_ARRAY: u32 = 16;

/// Returns a loop whose turn is `link`, so many times.
fn again(setup: &str, link: &str, times: u32, shared_bytes: u32) -> Loop {
    Loop {
        setup: setup.to_owned(),
        body: link.repeat(times as usize),
        shared_bytes,
    }
}

/// Returns a chain of [`LINKS`] dependent instructions.
#[must_use]
pub fn chain(op: Op) -> Loop {
    in_turn(op, 1)
}

/// Returns [`LINKS`] instructions of [`CHAINS`] chains in turn.
#[must_use]
pub fn throughput(op: Op) -> Loop {
    in_turn(op, CHAINS)
}

/// Returns [`LINKS`] instructions of `chains` chains in turn.
fn in_turn(op: Op, chains: usize) -> Loop {
    let body = (0..LINKS as usize)
        .map(|n| format!("{}\n    ", op.text(n, chains)))
        .collect();
    Loop {
        setup: String::new(),
        body,
        shared_bytes: NO_ARRAY,
    }
}

/// Returns [`LINKS`] loads of a pointer in shared memory; with `indexed`, of an index that a multiply-add makes the
/// next address of.
#[must_use]
pub fn shared_chase(indexed: bool) -> Loop {
    let (setup, link) = if indexed {
        let next = "mad.lo.u32 %r93, %r40, 8, %r20;\n    ld.shared.u32 %r40, [%r93];\n    ";
        ("st.shared.u32 [%r5], %r40;", next)
    } else {
        (
            "st.shared.u32 [%r5], %r20; mov.u32 %r40, %r20;",
            "ld.shared.u32 %r40, [%r40];\n    ",
        )
    };
    again(setup, link, LINKS, NO_ARRAY)
}

/// Returns [`LINKS`] loads of shared memory without conflicts. Each result is added to something, because a compiler
/// leaves out loads whose results nobody uses.
#[must_use]
pub fn shared_read() -> Loop {
    let setup = "and.b32 %r92, %r3, 31; shl.b32 %r92, %r92, 2; add.u32 %r20, %r20, %r92;";
    let mut body = "add.u32 %r20, %r20, %r6;\n    ".to_owned();
    for n in 0..LINKS {
        let (loaded, sum, at) = (72 + n % 16, 40 + n % 4, n * 128);
        body += &format!(
            "ld.shared.u32 %r{loaded}, [%r20+{at}];\n    add.u32 %r{sum}, %r{sum}, %r{loaded};\n    "
        );
    }
    Loop {
        setup: setup.to_owned(),
        body,
        shared_bytes: LINKS * 128,
    }
}

/// Threads of the block of [`l1_read`].
pub const L1_READ_THREADS: u32 = 512;

/// Returns products of two halves of a buffer, summed by one block of [`L1_READ_THREADS`], as the published kernel
/// computes them, and how many steps of two loads a turn has.
#[must_use]
pub fn l1_read(footprint_kb: u64) -> (Loop, u64) {
    let half = footprint_kb * 512;
    let row = u64::from(L1_READ_THREADS * 4);
    let steps = half / row;
    let body: String = (0..steps)
        .map(|n| {
            let at = n * row;
            let (a, b) = (40 + n % 8 * 2, 41 + n % 8 * 2);
            format!(
                "ld.global.nc.f32 %f{a}, [%rd3+{at}];\n    ld.global.nc.f32 %f{b}, [%rd3+{}];\n    \
                 fma.rn.f32 %f30, %f{a}, %f{b}, %f30;\n    ",
                at + half
            )
        })
        .collect();
    let read = Loop {
        setup: "mul.wide.u32 %rd5, %r3, 4; add.s64 %rd3, %rd1, %rd5;".to_owned(),
        // The addresses of every turn are the same, which a compiler does not know.
        body: format!("add.s64 %rd3, %rd3, %rd7;\n    {body}"),
        shared_bytes: NO_ARRAY,
    };
    (read, steps)
}

/// Loads of a turn of [`l1_stride`].
pub const L1_STRIDE_LOADS: u32 = 8;

/// Returns loads of elements of 4 or 8 bytes, neighbouring lanes `stride` elements apart, as the published kernel makes
/// them: eight loads of a turn four elements apart, by one block of 1024 threads.
#[must_use]
pub fn l1_stride(element_bytes: u32, stride: u32) -> Loop {
    let (ty, register, sum, base) = match element_bytes {
        4 => ("f32", "%f", "%f30", 40),
        _ => ("f64", "%d", "%d10", 18),
    };
    let mut body = String::from("add.s64 %rd3, %rd3, %rd6;\n    ");
    for (n, pair) in [[0, 4], [8, 12], [20, 16], [24, 28]]
        .into_iter()
        .enumerate()
    {
        let (a, b) = (base + 2 * n, base + 2 * n + 1);
        body += &format!(
            "ld.global.{ty} {register}{a}, [%rd3+{}];\n    ld.global.{ty} {register}{b}, [%rd3+{}];\n    \
             fma.rn.{ty} {sum}, {register}{a}, {register}{b}, {sum};\n    ",
            pair[0] * element_bytes,
            pair[1] * element_bytes
        );
    }
    let step = stride * element_bytes;
    let setup = format!(
        "and.b32 %r92, %r3, 63; mul.wide.u32 %rd5, %r92, {step}; add.s64 %rd3, %rd1, %rd5; mov.u64 %rd6, %rd7;"
    );
    Loop {
        setup,
        body,
        shared_bytes: NO_ARRAY,
    }
}

/// Lines on which an atomic chase is measured, and the bytes between two: of an L2 in halves, some lie in the half that
/// is further from the SM.
pub const ATOMIC_LINES: (u64, u64) = (16, 4096);
/// Links of a turn of [`atomic_chase`].
pub const ATOMIC_LINKS: u32 = 8;

/// Returns [`ATOMIC_LINKS`] atomic additions, each to an address that the one before returned. What they add is 0, so
/// the next address is the same and yet known only when it is there. The first is `at` bytes behind the data's.
#[must_use]
pub fn atomic_chase(at: u64) -> Loop {
    let link = "atom.global.add.u32 %r92, [%rd3], 0;\n    mul.wide.u32 %rd5, %r92, 4;\n    \
                add.s64 %rd3, %rd3, %rd5;\n    ";
    let setup = format!("add.s64 %rd3, %rd1, {at};");
    again(&setup, link, ATOMIC_LINKS, NO_ARRAY)
}

/// Returns [`LINKS`] atomic additions whose result nobody uses, in shared or global memory: lanes below `lanes` add to
/// one word, the others to a word each.
#[must_use]
pub fn atomics(is_shared: bool, lanes: u32) -> Loop {
    let (name, address) = match is_shared {
        false => ("global", "%rd3"),
        true => ("shared", "%r20"),
    };
    let setup = format!(
        "and.b32 %r92, %r3, 31; setp.lt.u32 %p3, %r92, {lanes}; selp.u32 %r92, 0, %r92, %p3; \
         mul.wide.u32 %rd5, %r92, 4; add.s64 %rd3, %rd1, %rd5; shl.b32 %r93, %r92, 2; \
         add.u32 %r20, %r20, %r93;"
    );
    let link = format!("red.{name}.add.u32 [{address}], %r2;\n    ");
    again(&setup, &link, LINKS, 256)
}

/// Returns [`LINKS`] barriers of a block.
#[must_use]
pub fn barrier() -> Loop {
    again("", "bar.sync 0;\n    ", LINKS, NO_ARRAY)
}
