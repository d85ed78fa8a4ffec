//! Time grows with the input and not with its square, for modules that hold much of two things at once: what one pass
//! looks up for each of the other.
//!
//! Each shape is timed at two sizes, one four times the other, and the ratio of the least times is bounded between
//! linear and quadratic. `GRIDMUX_SCALE=4` makes both sizes four times as large.
//!
//! A binary of its own, because tests beside it would make its times longer.

use gridmux_ptx::Module;
use gridmux_ptx::check::check_judged;
use gridmux_ptx::forms::{Form, Judgement, Options, rewrite};
use nix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::time::Duration;

/// Bytes of the smaller text.
const SMALL: usize = 128 << 10;
/// How many times as long the larger one is.
const TIMES: usize = 4;
/// How many times as long a stage may take for the larger one; a quadratic one takes 16 times as long.
const BOUND: f64 = 11.0;
/// A stage that is done sooner is not measured: the first touch of its memory takes as long.
const LEAST_SECONDS: f64 = 0.02;

/// What the text is made of: the nth piece of each list, one list behind the other.
enum Part {
    /// Stands once.
    Once(&'static str),
    /// Repeated.
    Each(fn(usize) -> String),
    /// Repeated, from the last to the first.
    Back(fn(usize) -> String),
}
use Part::{Back, Each, Once};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
const REGISTERS: &str = ".reg .b32 %r<9>;.reg .b64 %d<9>;.reg .pred %p<9>;.reg .f32 %f<9>;\n";

type Shape = (&'static str, &'static [Part]);

const SHAPES: &[Shape] = &[
    (
        "functions and calls through a pointer",
        &[
            Each(|n| format!(".func f{n}(){{ret;}}\n")),
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!("mov.u64 %d1,f{n};\n")),
            Once("P: .callprototype _ ();\n"),
            Each(|_| "call %d1,(),P;\n".into()),
            Once("}"),
        ],
    ),
    (
        "functions that call through a pointer",
        &[
            Each(|n| {
                format!(
                    ".func f{n}(){{.reg .b64 %d<2>; P: .callprototype _ (); mov.u64 %d1,f{n}; call %d1,(),P;}}\n"
                )
            }),
            Once(".entry k(){}"),
        ],
    ),
    (
        "call targets and calls",
        &[
            Each(|n| format!(".func f{n}(){{ret;}}\n")),
            Once(".entry k(){"),
            Once(REGISTERS),
            Once("P: .calltargets f0"),
            Each(|n| format!(",f{n}")),
            Once(";\n"),
            Each(|_| "call %d1,(),P;\n".into()),
            Once("}"),
        ],
    ),
    (
        "a jump table and jumps",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Once("T: .branchtargets L"),
            Each(|n| format!(",l{n}")),
            Once(";\n"),
            Each(|n| format!("@%p1 brx.idx %r1,T; l{n}: add.u32 %r1,%r1,1;\n")),
            Once("L:}"),
        ],
    ),
    (
        "shared variables and stores",
        &[
            Each(|n| format!(".shared .b32 s{n};\n")),
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!("st.shared.u32 [s{n}],%r1;\n")),
            Once("}"),
        ],
    ),
    (
        "shared variables and kernels",
        &[
            Each(|n| format!(".shared .b32 s{n};\n")),
            Each(|n| format!(".entry k{n}(){{.reg .b32 %r; st.shared.u32 [%r],%r;}}\n")),
        ],
    ),
    (
        "kernels with large shared variables",
        &[Each(|n| {
            format!(
                ".entry k{n}(){{.reg .b32 %r; .shared .align 4 .b8 t[4096]; mov.u32 %r,t; st.shared.u32 [%r],%r;}}\n"
            )
        })],
    ),
    (
        "constants and kernels that read them",
        &[
            Each(|n| format!(".const .b32 c{n};\n")),
            Each(|n| {
                format!(
                    ".entry k{n}(){{.reg .b32 %r; .reg .b64 %d; ld.const.u32 %r,[%d]; ld.const.u32 %r,[c{n}];}}\n"
                )
            }),
        ],
    ),
    (
        "constants and reads",
        &[
            Each(|n| format!(".const .b32 c{n};\n")),
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!("mov.u64 %d1,c{n}; ld.const.u32 %r1,[%d1];\n")),
            Once("}"),
        ],
    ),
    (
        "local variables and generic stores",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!(".local .b32 v{n};\n")),
            Once("cvta.local.u64 %d1,%d2;\n"),
            Each(|_| "st.u32 [%d1],%r1;\n".into()),
            Once("}"),
        ],
    ),
    (
        "shared variables of a kernel and one local one",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!(".shared .b32 v{n};\n")),
            Once(".local .b32 l; cvta.local.u64 %d1,%d2;\n"),
            Each(|_| "st.u32 [%d1],%r1; st.local.u32 [%d3],%r1;\n".into()),
            Once("}"),
        ],
    ),
    (
        "functions and their generic stores",
        &[
            Each(|n| format!(".func f{n}(){{ret;}}\n")),
            Once(".func g(){"),
            Once(REGISTERS),
            Each(|_| "st.u32 [%d1],%r1;\n".into()),
            Once("} .entry k(){call g;}"),
        ],
    ),
    (
        "functions with locals that escape",
        &[Each(|n| {
            format!(
                ".func f{n}(){{.reg .b64 %d<2>;.reg .b32 %r; .local .b32 l; cvta.local.u64 %d1,%d1; st.u32 [%d1],%r; \
                 ld.u32 %r,[%d1];}}\n"
            )
        })],
    ),
    (
        "kernels that call everything",
        &[
            Each(|n| format!(".func f{n}(){{ret;}}\n")),
            Once(".func g(){\n"),
            Each(|n| format!("call f{n};\n")),
            Once("}\n"),
            Each(|n| format!(".entry k{n}(){{call g;}}\n")),
        ],
    ),
    (
        "a chain of calls and kernels",
        &[
            Once(".func f(){ret;}.func f0(){call f;}\n"),
            Each(|n| format!(".func f{}(){{call f{n};call f{n};}}\n", n + 1)),
            Each(|n| format!(".entry k{n}(){{call f{n};}}\n")),
        ],
    ),
    (
        "callees that read the grid and callers",
        &[
            Each(|n| format!(".func f{n}(){{.reg .b32 %r; mov.u32 %r,%ctaid.x;ret;}}\n")),
            Once(".func g(){\n"),
            Each(|n| format!("call f{n};\n")),
            Once("}\n"),
            Each(|n| format!(".entry k{n}(){{call g;}}\n")),
        ],
    ),
    (
        "functions that trap and kernels",
        &[
            Each(|n| format!(".func f{n}(){{trap;}}\n")),
            Once(".func g(){\n"),
            Each(|n| format!("call f{n};\n")),
            Once("}\n"),
            Each(|n| format!(".entry k{n}(){{call g;}}\n")),
        ],
    ),
    (
        "nested loops",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!("l{n}: add.u32 %r1,%r1,1;\n")),
            Back(|n| format!("@%p1 bra l{n};\n")),
            Once("}"),
        ],
    ),
    (
        "nested loops with barriers",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!("l{n}: bar.sync 0;\n")),
            Back(|n| format!("@%p1 bra l{n};\n")),
            Once("}"),
        ],
    ),
    (
        "nested conditions",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!("@%p1 bra l{n};add.u32 %r1,%r1,1;\n")),
            Back(|n| format!("l{n}: st.global.u32 [%d1],%r1;\n")),
            Once("}"),
        ],
    ),
    (
        "nested conditions with returns and barriers",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Once("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;"),
            Each(|n| format!("@%p1 bra l{n};bar.sync 0;\n")),
            Back(|n| format!("l{n}: ld.global.u32 %r1,[%d1]; setp.eq.u32 %p1,%r1,0;\n")),
            Once("}"),
        ],
    ),
    (
        "branches forward by one and a barrier each",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| {
                format!(
                    "l{n}: @%p1 bra l{}; @%p2 bra l{}; bar.sync 0;\n",
                    n + 1,
                    n / 2
                )
            }),
            Once("}"),
        ],
    ),
    (
        "many registers alive through many blocks",
        &[
            Once(".entry k(){ .reg .b32 %q<999999>; .reg .pred %p1;"),
            Each(|n| format!("mov.u32 %q{n},%tid.x;\n")),
            Each(|n| format!("@%p1 bra l{n}; l{n}:\n")),
            Each(|n| format!("st.global.u32 [%q{n}],%q{n};\n")),
            Once("}"),
        ],
    ),
    (
        "a chain of copies",
        &[
            Once(".entry k(){ .reg .b64 %q<999999>; .reg .b32 %r;"),
            Back(|n| {
                format!(
                    "add.u64 %q{},%q{n},1; st.global.u32 [%q{}],%r;\n",
                    n + 1,
                    n + 1
                )
            }),
            Once("}"),
        ],
    ),
    (
        "a loop that rotates registers",
        &[
            Once(".entry k(){ .reg .b64 %q<999999>; .reg .b32 %r; .reg .pred %p1; L:"),
            Back(|n| format!("mov.u64 %q{},%q{n}; st.u32 [%q{}],%r;\n", n + 1, n + 1)),
            Once("@%p1 bra L; }"),
        ],
    ),
    (
        "a loop that rotates registers forward",
        &[
            Once(".entry k(){ .reg .b64 %q<999999>; .reg .b32 %r; .reg .pred %p1; L:"),
            Each(|n| format!("add.u64 %q{n},%q{},4; st.u32 [%q{}],%r;\n", n + 1, n + 1)),
            Once("@%p1 bra L; }"),
        ],
    ),
    (
        "names like those that a rewrite adds",
        &[
            Once(".entry k(){ .reg .b32 %gridmux;\n"),
            Each(|n| format!(".reg .b32 %gridmux{}x;\n", n + 1)),
            Once("}"),
        ],
    ),
    (
        "aliases and calls",
        &[
            Once(".func f(){ret;}\n"),
            Each(|n| format!(".func a{n}();\n.alias a{n},f;\n")),
            Once(".entry k(){"),
            Each(|n| format!("call a{n};\n")),
            Once("}"),
        ],
    ),
    (
        "parameters and calls",
        &[
            Once(".func f(.param .b32 p"),
            Each(|n| format!(",.param .b32 p{n}")),
            Once("){ret;}\n.entry k(){"),
            Once(REGISTERS),
            Each(|n| format!(".param .b32 q{n};\n")),
            Once("call f,(q0"),
            Each(|n| format!(",q{n}")),
            Once(");}"),
        ],
    ),
    (
        "parameters and their loads",
        &[
            Once(".entry k(.param .b32 p"),
            Each(|n| format!(",.param .b32 p{n}")),
            Once("){"),
            Once(REGISTERS),
            Each(|n| format!("ld.param.u32 %r1,[p{n}];\n")),
            Once("}"),
        ],
    ),
    (
        "many mnemonics",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| {
                let mut text = String::from("setp");
                for bit in 0..5 {
                    let _ = write!(
                        text,
                        ".{}",
                        ["ftz", "lt", "eq", "f32", "and"][(n >> bit) % 5]
                    );
                }
                text + " %p1,%f1,%f2;\n"
            }),
            Once("}"),
        ],
    ),
    (
        "scopes with variables",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| format!("{{.reg .b32 %s; .shared .b32 v{n}; st.shared.u32 [v{n}],%s;}}\n")),
            Once("}"),
        ],
    ),
    (
        "scopes with the same variable",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|_| {
                "{.shared .b32 v; .local .b32 w; mov.u32 %r1,v; st.shared.u32 [%r1],%r1; st.local.u32 [w+1],%r1; \
                 st.shared.u32 [v+2],%r1;}\n".into()
            }),
            Once("}"),
        ],
    ),
    (
        "a table of functions",
        &[
            Each(|n| format!(".func f{n}(){{ret;}}\n")),
            Once(".global .u64 t[]={f0"),
            Each(|n| format!(",f{n}")),
            Once("};.entry k(){"),
            Once(REGISTERS),
            Once("P: .callprototype _ ();\n"),
            Each(|_| "call %d1,(),P;\n".into()),
            Once("}"),
        ],
    ),
    (
        "atomics, fences and spins",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|n| {
                format!(
                    "l{n}: atom.global.cas.b32 %r1,[%d1],%r2,%r3; setp.ne.u32 %p1,%r1,0; @%p1 bra l{n};\n"
                )
            }),
            Once("}"),
        ],
    ),
    (
        "spins in functions",
        &[
            Each(|n| {
                format!(
                    ".func f{n}(){{.reg .b32 %r;.reg .pred %p;.reg .b64 %d; l: ld.volatile.global.u32 %r,[%d]; \
                     setp.ne.u32 %p,%r,0; @%p bra l;}}\n"
                )
            }),
            Each(|n| format!(".entry k{n}(){{call f{n};call f{};}}\n", n / 2)),
        ],
    ),
    (
        "shared accesses with phases",
        &[
            Once(".entry k(){.shared .b32 s[999];"),
            Once(REGISTERS),
            Each(|n| {
                format!(
                    "st.shared.u32 [s+{}],%r1; bar.sync 0; ld.shared.u32 %r1,[s+{}]; @%p1 bra l{n}; l{n}:\n",
                    n % 999 * 4,
                    n % 997 * 4
                )
            }),
            Once("}"),
        ],
    ),
    (
        "offsets of one base",
        &[
            Once(".entry k(){.shared .b32 s[999];"),
            Once(REGISTERS),
            Each(|n| {
                format!(
                    "ld.shared.u32 %r1,[%r2+{}]; ld.global.u32 %r3,[%d1+{}];\n",
                    n * 4,
                    n * 8
                )
            }),
            Once("}"),
        ],
    ),
];

/// Returns the text of a shape, at least that many bytes long.
fn text(parts: &[Part], bytes: usize) -> String {
    let whole = |n: usize| {
        let mut text = HEADER.to_owned();
        for part in parts {
            match part {
                Once(piece) => text.push_str(piece),
                Each(piece) => (0..n).for_each(|i| text.push_str(&piece(i))),
                Back(piece) => (0..n).rev().for_each(|i| text.push_str(&piece(i))),
            }
        }
        // A module has at least 128 bytes for each of its functions and 16 for each instruction.
        let functions = text.matches("(){").count() + text.matches("();").count();
        let instructions = text.matches(';').count();
        let least = functions * 128 + instructions * 16;
        if text.len() < least {
            text.extend(std::iter::repeat_n(' ', least - text.len()));
        }
        text
    };
    let per_piece = (whole(200).len() - whole(100).len()) / 100;
    whole(bytes / per_piece.max(1))
}

/// Returns what this thread has had of a processor: other processes do not count.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("every Linux has this clock")
        .into()
}

/// Seconds of a processor that each stage takes, at the least of some runs.
fn costs(text: &str, runs: usize) -> Vec<(String, f64)> {
    let mut least: Vec<(String, f64)> = Vec::new();
    let mut note = |run: usize, n: &mut usize, what: String, start: Duration| {
        let seconds = (processor_time() - start).as_secs_f64();
        match run {
            0 => least.push((what, seconds)),
            _ => least[*n].1 = least[*n].1.min(seconds),
        }
        *n += 1;
    };
    for run in 0..runs {
        let mut n = 0;
        let start = processor_time();
        let Ok(module) = Module::parse(text) else {
            note(run, &mut n, "parse refuses".into(), start);
            continue;
        };
        note(run, &mut n, "parse".into(), start);
        let start = processor_time();
        let Ok(program) = module.decode() else {
            note(run, &mut n, "decode refuses".into(), start);
            continue;
        };
        note(run, &mut n, "decode".into(), start);
        let start = processor_time();
        let judgement = Judgement::new(&module, &program);
        note(run, &mut n, "judge".into(), start);
        let start = processor_time();
        let _ = check_judged(&program, &judgement);
        note(run, &mut n, "check".into(), start);
        for form in Form::ALL {
            let start = processor_time();
            let _ = rewrite(&module, &program, &Options::default(), |_| form);
            note(run, &mut n, format!("{form}"), start);
        }
    }
    least
}

/// Stages whose time grows as the square of the text does, or nearly, as (stage, small, large) in seconds.
fn suspects(parts: &[Part], scale: usize, runs: usize) -> Vec<(String, f64, f64)> {
    let (small, large) = (
        text(parts, SMALL * scale),
        text(parts, SMALL * scale * TIMES),
    );
    let (before, after) = (costs(&small, 2 * runs), costs(&large, runs));
    let pairs = before.into_iter().zip(after);
    let found = pairs
        .filter(|((what, a), (other, b))| what != other || (*b > a * BOUND && *b > LEAST_SECONDS));
    found.map(|((what, a), (_, b))| (what, a, b)).collect()
}

#[test]
fn time_is_linear_in_two_things_at_once() {
    let scale = std::env::var("GRIDMUX_SCALE").ok();
    let scale: usize = scale.and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut wrong = Vec::new();
    for (name, parts) in SHAPES {
        // Some work is spared for small modules, which looks like growth once: only what grows on from the larger size
        // as well is a fault.
        if suspects(parts, scale, 1).is_empty() {
            continue;
        }
        for (what, a, b) in suspects(parts, scale * TIMES, 2) {
            wrong.push(format!("{name}: {what} {a:.4} s, {b:.4} s"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
