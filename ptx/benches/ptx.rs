//! Speed of the front end, one JSON line a benchmark on standard output.
//!
//! The text is generated: kernels in nvcc's style, at least 8 MB of them under one header. The floor of every
//! benchmark is the least that any parser has to do with the same bytes in the same run: look each one up in a
//! 256-entry table and copy it. `ptx_scaling` says how the time grows with the input, for the worst of many shapes.

#[allow(dead_code, reason = "the test of allocations uses all of it")]
#[path = "../tests/growth/shapes.rs"]
mod shapes;

use gridmux_ptx::Module;
use gridmux_ptx::check::check_with;
use gridmux_ptx::forms::{Form, FormVerdicts, Options, rewrite, rewrite_with};
use std::hint::black_box;
use std::time::Instant;

const BYTES: usize = 8 << 20;
const ROUNDS: usize = 5;

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| filter.as_deref().is_none_or(|f| name.contains(f));
    let text = generate(BYTES);
    let floor = floor(&text);
    let parse = |t| Module::parse(t).expect("the generated text is well-formed");
    let decode = |t| {
        let module = parse(t);
        let program = module.decode().expect("the generated text decodes");
        (module, program)
    };
    let measured = |name: &str, run: &dyn Fn(Vec<u8>) -> usize| {
        if wanted(name) {
            report(name, floor, speed(&text, run));
        }
    };
    measured("ptx_round_trip", &|t| parse(t).print().len());
    measured("ptx_decode", &|t| decode(t).1.functions.len());
    measured("ptx_slice", &|t| {
        let (module, program) = decode(t);
        let made = rewrite(&module, &program, &Options::default(), |_| Form::SLICE);
        made.bytes.len()
    });
    measured("ptx_check_and_worker", &|t| {
        let (module, program) = decode(t);
        let verdicts = FormVerdicts::new(&module, &program);
        let kernels = check_with(&program, &verdicts);
        let options = Options::default();
        let made = rewrite_with(&module, &program, &verdicts, &options, |_| Form::WORKER);
        assert!(made.kernels.iter().all(|k| k.has(Form::WORKER)));
        kernels.len() + made.bytes.len()
    });
    if wanted("ptx_scaling") {
        let shapes = shapes::read(include_str!("../tests/growth/pairs.txt"));
        let slowest = shapes.iter().map(|shape| (scaling(shape), shape.name));
        let (ratio, name) = slowest.fold((0.0, ""), |a, b| if b.0 > a.0 { b } else { a });
        eprintln!("ptx_scaling: {name}");
        println!(
            // Wide: a line of output.
            r#"{{"name":"ptx_scaling","value":{ratio:.2},"unit":"times the time for four times the text","better":"lower","floor":4,"ratio":{:.4},"peer":null}}"#,
            ratio / 4.0
        );
    }
}

/// Returns how many times as long a module that is four times as long takes to be judged and made a worker.
fn scaling(shape: &shapes::Shape) -> f64 {
    let seconds = |bytes: usize| {
        let text = shape.padded(bytes);
        let run = || {
            let start = Instant::now();
            if let Ok(module) = Module::parse(&*text)
                && let Ok(program) = module.decode()
            {
                black_box(rewrite(&module, &program, &Options::default(), |_| {
                    Form::FENCE_WORKER
                }));
            }
            start.elapsed().as_secs_f64()
        };
        (0..3).map(|_| run()).fold(f64::INFINITY, f64::min)
    };
    seconds(4 << 20) / seconds(1 << 20)
}

fn report(name: &str, floor: f64, value: f64) {
    println!(
        // Wide: a line of output.
        r#"{{"name":"{name}","value":{value:.1},"unit":"MB/s","better":"higher","floor":{floor:.1},"ratio":{:.4},"peer":null}}"#,
        value / floor
    );
}

/// MB/s of the fastest of several rounds; each gets its own copy of the text, made outside the clock.
fn speed(text: &[u8], mut run: impl FnMut(Vec<u8>) -> usize) -> f64 {
    let best = (0..ROUNDS)
        .map(|_| {
            let copy = text.to_vec();
            let start = Instant::now();
            black_box(run(black_box(copy)));
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    // A length in bytes is exact in an f64.
    let bytes = text.len() as f64;
    bytes / best / 1e6
}

fn floor(text: &[u8]) -> f64 {
    let mut class = [0_u8; 256];
    for b in *b" \t\r\n" {
        class[usize::from(b)] = 1;
    }
    let mut out = vec![0_u8; text.len()];
    speed(text, |t| {
        let mut words = 0_usize;
        let mut last = 1_u8;
        for (to, &from) in out.iter_mut().zip(&t) {
            let c = black_box(&class)[usize::from(from)];
            words += usize::from(c < last);
            last = c;
            *to = from;
        }
        black_box(&out);
        words
    })
}

/// Kernels as nvcc writes them: a guard, address arithmetic, loads, a few FMAs, a loop, a barrier, a store.
fn generate(bytes: usize) -> Vec<u8> {
    let mut text = String::from(
        "//\n// Generated for the benchmark\n//\n\n.version 8.5\n.target sm_80\n.address_size 64\n\n",
    );
    let mut kernel = 0;
    while text.len() < bytes {
        text.push_str(&generate_kernel(kernel));
        kernel += 1;
    }
    text.into_bytes()
}

fn generate_kernel(k: usize) -> String {
    use std::fmt::Write as _;
    let name = format!("_Z14bench_kernel_{k}PfPKfi");
    let mut t = format!(
        "\t// .globl\t{name}\n.visible .entry {name}(\n\t.param .u64 {name}_param_0,\n\t.param .u64 {name}_param_1,\n\
         \t.param .u32 {name}_param_2\n)\n.maxntid 256, 1, 1\n{{\n\t.reg .pred \t%p<4>;\n\t.reg .f32 \t%f<200>;\n\
         \t.reg .b32 \t%r<12>;\n\t.reg .b64 \t%rd<8>;\n\n"
    );
    let _ = write!(
        t,
        "\tld.param.u64 \t%rd1, [{name}_param_0];\n\tld.param.u64 \t%rd2, [{name}_param_1];\n\
         \tld.param.u32 \t%r2, [{name}_param_2];\n\tmov.u32 \t%r3, %ctaid.x;\n\tmov.u32 \t%r4, %ntid.x;\n\
         \tmov.u32 \t%r5, %tid.x;\n\tmad.lo.s32 \t%r1, %r3, %r4, %r5;\n\tbar.sync \t0;\n\
         \tsetp.ge.s32 \t%p1, %r1, %r2;\n\t@%p1 bra \t$L__BB{k}_3;\n\n\tcvta.to.global.u64 \t%rd3, %rd1;\n\
         \tcvta.to.global.u64 \t%rd4, %rd2;\n\tmul.wide.s32 \t%rd5, %r1, 4;\n\tadd.s64 \t%rd6, %rd4, %rd5;\n\
         \tadd.s64 \t%rd7, %rd3, %rd5;\n\tmov.f32 \t%f1, 0f00000000;\n\tmov.u32 \t%r6, 0;\n\n$L__BB{k}_2:\n"
    );
    for i in 1..60 {
        let (a, b, c) = (2 * i, 2 * i + 1, 2 * i + 2);
        let _ = write!(
            t,
            "\tld.global.nc.f32 \t%f{a}, [%rd6+{}];\n\tfma.rn.f32 \t%f{c}, %f{a}, 0f3F8CCCCD, %f{b};\n",
            4 * i
        );
    }
    let _ = write!(
        t,
        "\tadd.s32 \t%r6, %r6, 1;\n\tsetp.lt.s32 \t%p2, %r6, %r2;\n\t@%p2 bra \t$L__BB{k}_2;\n\n\
         \tst.global.f32 \t[%rd7], %f120;\n\n$L__BB{k}_3:\n\tret;\n\n}}\n"
    );
    t
}
