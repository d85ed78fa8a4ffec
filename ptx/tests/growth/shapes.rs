//! Modules that hold much of two things at once: what one pass looks up for each of the other, so that a pass over
//! pairs would grow with the square of the text.

use std::fmt::Write as _;

/// What the text is made of: the nth piece of each list, one list behind the other.
pub(crate) enum Part {
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

/// A name, and what the text is made of.
pub(crate) type Shape = (&'static str, &'static [Part]);

/// The modules, by what they hold much of.
pub(crate) const SHAPES: &[Shape] = &[
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
    (
        "scopes with a jump out of each",
        &[
            Once(".entry k(){"),
            Each(|_| "{bra L;}\n".into()),
            Once("L:}"),
        ],
    ),
    (
        "jumps out of a deep scope",
        &[
            Once(".entry k(){{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{"),
            Each(|_| "bra L;\n".into()),
            Once("}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}L:}"),
        ],
    ),
    (
        "reads of what forbids slices",
        &[
            Once(".entry k(){"),
            Once(REGISTERS),
            Each(|_| "mov.u32 %r1,%envreg1;\n".into()),
            Once("}"),
        ],
    ),
];

/// Returns two modules that are linked, of which each has `count` of every kind of name.
pub(crate) fn linked_modules(count: usize, name_bytes: usize) -> [String; 2] {
    let long = "n".repeat(name_bytes);
    let module = |part: usize| {
        // What a comment holds makes room for dense text.
        let mut text = format!("{HEADER}//{}\n", " ".repeat(500 * count));
        for n in 0..count {
            let name = format!("{long}{n}");
            let _ = writeln!(
                text,
                ".global .u32 s{name}, t{name}; .weak .global .u32 w{name} = 1, v{name}[2];"
            );
            let _ = writeln!(
                text,
                ".weak .func f{name}() {{ .reg .u32 %r; ld.global.u32 %r, [s{name}]; ret; }}"
            );
            let _ = writeln!(
                text,
                ".func g{name}(); .func h{name}() {{ ret; }} .alias g{name}, h{name};"
            );
            let (this, other) = (part, 1 - part);
            let _ = writeln!(
                text,
                ".visible .global .u32 x{this}{name}; .extern .global .u32 x{other}{name};"
            );
            let _ = writeln!(
                text,
                ".visible .entry k{this}{name}() {{ .reg .u32 %r; ld.global.u32 %r, [x{other}{name}]; call f{name}; \
                 ret; }}"
            );
        }
        text
    };
    [module(0), module(1)]
}

/// Returns the text of a shape, at least that many bytes long.
pub(crate) fn text(parts: &[Part], bytes: usize) -> String {
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
