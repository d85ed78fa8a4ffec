//! The `worker` form: the body as a loop over block numbers (accelOS's virtual groups, DESIGN section 4).
//!
//! A launch has as many workers as may reside. Each takes *tickets*, each for some blocks of one row of the grid, until
//! there are none or its SM has more workers than its cap. The next ticket is asked for at the head of a ticket's last
//! block, and the answer used at its end, so that no round trip to memory stands between two; or *late*, at that end.
//! The text in the order in which it stands, what is seldom come to last:
//!
//! ```text
//! enter    plain = late;  the first two threads: prepare
//!          dealt straight: every thread finds the ticket's blocks, goes to body; before that, unless late, of one
//!          block the first warp asks, of more last -= apart.  Others: general
//! body     whose every exit goes to:
//! rejoin   wait for asynchronous copies;  x += apart;  x <= last, unless this was a last block: go to body, behind
//!          bar.sync 0 where threads of the block meet.  Unless late, in front of a last block: head
//! known    who speaks, late: asks.  lane 1 tells the cap;  lane 0: none taken: over, else settle
//! settle   one thread tells the ticket's blocks;  ticket >= tickets: tells that there are none
//! told     bar.sync 0;  (x, y, z), last = blocks of the ticket;  none: leave;  late: go to body
//!          more than one: last -= apart, go to body, and so to head in front of the last;  one: to vote
//! head     the last block begins: vote, or in a first ticket look;  behind bar.sync 0 where threads meet
//! vote     the first warp that comes here speaks from now on: it asks, and waits for no answer.  Go to body
//! look     the first warp asks.  Go to body
//!
//! ask      lane 0: hint < cap as told: ahead = next++ else LATER
//!          lane 1: ahead = cap[sm]                         the same instruction
//! prepare  the words: hint = uncounted, a cap that binds nobody
//! general  dealt: ticket = number of the block in the launch, settle.  Else join
//! join     hint = count[sm]++, cap of that moment: one atomic operation;  placed += 1
//!          hint >= cap: over, else ticket = next++, settle
//! over     uncounted: hint = count[sm]++
//!          loop: count[sm] > cap[sm]: count[sm] -= 1 by compare-and-swap, leave;  else hint = count[sm] - 1,
//!          ticket = next++, settle
//! ```
//!
//! **Who speaks.** The warps of a block come to the head of the last block at different times, and in about the same
//! order to its end. So the first one there looks ahead, and while the others still run it has time to find the next
//! ticket's blocks: on an SM with many warps each instruction of one warp takes as long as one of all of them. Lanes 0
//! and 1 are elected each for itself, by an exchange in shared memory. In the first turn, and where tickets are taken
//! late, the first warp speaks. Where some warp has one lane only, or the second thread is not beside the first, nobody
//! could read the cap beside lane 0, and tickets are taken *warily*: lane 0 asks for the cap before each.
//!
//! **The first turn.** Dealt blocks are gone to without a barrier. Only the first two threads touch the words before
//! all have met at the first `told`: each writes what it reads. A fenced kernel does not begin so, because a thread
//! that leaves for a fault says so in the words.
//!
//! **Lanes that part.** Whatever parts the lanes of a warp leads them together again in front of the body, and they
//! wait for each other there (`bar.warp.sync`): lanes that came to the body alone would run it alone. `told`'s barrier
//! does the same. Only from `prepare` the first two lanes come back to where the others are by one way, as from any
//! branch. So a piece that is reached from both sides of the body is written twice.
//!
//! **Places.** `count` and `cap` of an SM are one word. Whoever has counted himself is a *member* until his own
//! subtraction, so that `count` is the number of members as long as there are tickets; who finds none left leaves
//! without it, since nobody is to come in his place. For every `c` at most `c` members have `hint < c`: a newcomer's
//! hint is the number of members before it, and one that is renewed is the number of the others at that moment; in both
//! cases either the hint is not below `c` or there are at most `c` members. So while `count > cap` at least
//! `count - cap` members see that their hint is not below the cap, and come to `over`; and a compare-and-swap succeeds
//! only while `count > cap`, so that leaving never brings the members below the cap: one worker stays while the cap is
//! above zero and tickets remain.
//!
//! A worker that was dealt its first ticket is no member while its SM's cap is
//! [`control::CAP_UNBOUND`](crate::control): its hint is below that cap and no other, so that it comes to `over` when
//! it sees a cap that binds, and counts itself like a newcomer.
//!
//! **Tickets.** An accepted ticket is always run, also by a worker that is over its cap; it leaves one ticket later. So
//! when all grids have ended, exactly the tickets below `next` have run, and a stop needs no word of its own: all caps
//! zero. Tickets are accepted in ascending order, and each worker runs its own in that order. The lowest ticket that is
//! accepted and not finished is therefore being run, not held: a block that waits for earlier ones alone is waited for
//! by nobody that it waits for. Dealt tickets may be held by workers that have not started, and blocks that stand apart
//! follow later ones; kernels whose blocks wait for earlier ones, or may hide such a wait, are dealt none and take one
//! block at a time.
//!
//! **Words.** What the threads tell each other stands in shared memory ([`ticket`]). The blocks of a ticket stand in
//! two sets of words used in turn, so that one barrier is enough: who writes a set has passed the barrier behind which
//! all had read it the time before. The cap is one word: whenever who speaks reads it, it holds one that was true since
//! the last ticket was looked for. A dealt worker begins with one that binds nobody.
//!
//! **Registers.** Across a body live `ahead` and some predicates; with chunks also the block's place on the axes that
//! the body asks for, and `last` in the register that is `ahead`'s in the last block of a ticket that one is asked for
//! ahead in; a predicate says so (`fin`), and what the register holds is not looked at then. What must be remembered
//! otherwise, the hint and where the place is, stands in the words. A kernel that needs many registers ([`HEAVY`])
//! takes one block at a time and has its place from the ticket. The loop's head stands behind the instructions at the
//! kernel's start that give the same in every block ([`start`]). A register that the body may read before it writes it
//! is given a value there, because undefined values of one block would otherwise be carried to the next and kept alive.
//!
//! Where threads of a block cannot meet ([`convergence::threads_meet`]) its warps run on by themselves to the end of
//! the ticket. Soundness rests on [`super::convergence`]: every thread of the block passes the same barriers before it
//! rejoins.

/// As `format!`, with room for a piece of the loop's text from the start: names are longer than what stands for them.
macro_rules! text {
    ($($piece:tt)*) => {{
        let mut text = String::with_capacity(1024);
        // Writing to a string does not fail.
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!($($piece)*));
        text
    }};
}

mod place;
mod start;
mod text;

use super::convergence::{self, Judged};
use super::facts::Facts;
use super::frame::{Frame, Role};
use super::reach::Calls;
use super::{Reason, ticket};
use crate::decode::{FuncId, Opcode, Program};

pub(super) use place::{aside_text, place_text, settling_text};
pub(super) use text::{Registers, start_text, step_text};

/// Registers per thread from which a kernel takes one block at a time: its occupancy may hang on two more, and its
/// blocks last so long that the cost of a barrier for each is negligible.
const HEAVY: u32 = 25;

/// Whether workers may take more than one block at a time, if their kernel needs an estimated `registers_estimate`
/// registers per thread.
pub(super) fn takes_chunks(registers_estimate: u32) -> bool {
    registers_estimate < HEAVY
}

/// What stands against the loop in each function, for reasons of its own, and what it relies on.
pub(super) fn judge(program: &Program, calls: &Calls) -> Vec<Judged> {
    convergence::judge(program, calls)
}

/// Why an instruction cannot stand in the loop's body, wherever it stands.
pub(super) fn forbids(program: &Program, id: FuncId) -> Option<(Reason, u32)> {
    let function = &program.functions[id.0 as usize];
    function.body.iter().find_map(|i| {
        let name = &*i.mnemonic;
        let what = || name.to_owned();
        let reason = match i.opcode {
            Opcode::Exit if !function.is_entry => Reason::ExitInCallee {
                function: function.name.clone(),
            },
            Opcode::Alloca => Reason::OncePerThread { what: what() },
            _ if happens_once(name) => Reason::OncePerThread { what: what() },
            Opcode::Other => Reason::Unknown { what: what() },
            _ => return None,
        };
        Some((reason, i.span.start))
    })
}

/// Instructions whose effect outlasts a block's body or counts on being the first of its kind in a thread's life:
/// barrier objects that are set up without being torn down, register budgets, tensor memory, copies that a barrier
/// object tracks.
fn happens_once(mnemonic: &str) -> bool {
    let starts = |list: &[&str]| list.iter().any(|p| mnemonic.starts_with(p));
    // Every instruction of every module comes by here, so the first letter decides for most.
    match mnemonic.as_bytes().first() {
        Some(b'm') => starts(&["mbarrier"]),
        Some(b'c') => starts(&["cp.async.mbarrier", "cp.async.bulk", "cp.reduce.async.bulk"]),
        Some(b's') => starts(&["st.async", "st.bulk", "setmaxnreg"]),
        Some(b'r') => starts(&["red.async"]),
        Some(b'w') => starts(&["wgmma"]),
        Some(b't') => starts(&["tcgen05"]),
        Some(b'f') => starts(&["fence.mbarrier_init"]),
        _ => false,
    }
}

/// What the loop has to know of the module and the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loop {
    /// Any function of the module copies asynchronously; a callee may leave copies on their way as well.
    pub(super) copies: bool,
    /// Threads of a block may meet in it.
    pub(super) meets: bool,
    /// A ticket may be for more than one block.
    pub(super) chunks: bool,
}

/// Puts the loop round a kernel's body.
pub(super) fn edit(frame: &mut Frame<'_>, facts: &Facts, looped: Loop) {
    if let Role::Kernel(form) = frame.role
        && ticket::words_are_static(frame.program, form)
    {
        frame.declare_words();
    } else {
        ticket::rectify_sizes(frame, facts);
    }
    frame.takes_chunks = looped.chunks;
    frame.entry_instruction = start::same_in_every_block(frame);
    let head = text::enter(frame);
    frame.at_entry(&head);
    let kills = start::kills(frame);
    let body = frame.label("body");
    frame.at_entry(&format!("{body}: {kills}"));
    let rejoin = frame.label("rejoin");
    for (n, i) in (0..).zip(&frame.function.body) {
        if matches!(i.opcode, Opcode::Ret | Opcode::Exit) {
            // Behind the last one stands the rejoin.
            let there = frame.is_last_statement(n) && i.guard.is_none();
            let text = if there {
                String::new()
            } else {
                format!("bra {rejoin};")
            };
            frame.replace_operation(n, &text);
        }
    }
    let tail = [
        text::rejoin(frame, looped),
        text::told(frame),
        text::vote(frame, looped),
        text::first_look(frame),
        text::prepare(frame),
        text::general(frame),
        text::join(frame),
        text::over(frame),
    ];
    for text in tail {
        frame.at_end(&text);
    }
}

#[cfg(test)]
mod tests {
    use crate::Module;
    use crate::forms::{Form, Options, rewrite};
    use std::collections::BTreeMap;

    /// The statements of a worker, by label: of a kernel whose place is of that many axes and whose blocks may come in
    /// chunks.
    fn pieces(axes: usize) -> BTreeMap<String, Vec<String>> {
        let reads: String = ["x", "y", "z"][..axes]
            .iter()
            .map(|axis| {
                format!("mov.u32 %r1, %ctaid.{axis}; st.volatile.global.u32 [%rd1], %r1;\n")
            })
            .collect();
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k (.param .u64 p) {{ .reg .b32 %r<3>; \
             .reg .b64 %rd<3>;\n\
             ld.param.u64 %rd1, [p];\n{reads}ret; }}\n"
        );
        let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let program = module.decode().unwrap_or_else(|e| panic!("{e}"));
        let made = rewrite(&module, &program, &Options::default(), |_| Form::WORKER);
        assert_eq!(made.kernels[0].reason, None);
        let text = String::from_utf8(made.bytes).expect("text");
        let mut pieces: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut label = "start".to_owned();
        for mut statement in text.split(';').map(str::trim) {
            while let Some((name, rest)) = statement.split_once(": ") {
                label = name.trim_start_matches("$gridmux_").to_owned();
                statement = rest.trim();
            }
            pieces
                .entry(label.clone())
                .or_default()
                .push(statement.to_owned());
        }
        pieces
    }

    #[test]
    fn lanes_that_parted_meet_before_the_body() {
        for axes in 1..=3 {
            let pieces = pieces(axes);
            let all = || pieces.values().flatten();
            // Predicate 5 says who speaks, 0 is of the moment; the others are the same in all threads of a block.
            let parts = |s: &&String| {
                s.starts_with("@%gridmux_pred_5 ") || s.starts_with("@!%gridmux_pred_5 ")
            };
            assert!(all().filter(parts).count() >= 5, "{axes} axes: {pieces:?}");
            let to_body = all().filter(parts).filter(|s| s.contains("gridmux_body"));
            assert_eq!(
                to_body.collect::<Vec<_>>(),
                Vec::<&String>::new(),
                "{axes} axes"
            );
            let of_the_moment = pieces["vote_0"].iter().filter(|s| s.contains("bra"));
            let ways: Vec<&String> = of_the_moment
                .filter(|s| s.contains("gridmux_body"))
                .collect();
            assert_eq!(ways, Vec::<&String>::new(), "{axes} axes");
            for place in ["gather_0", "begun_0"] {
                assert_eq!(pieces[place][0], "bar.warp.sync -1", "{axes} axes");
            }
        }
    }
}
