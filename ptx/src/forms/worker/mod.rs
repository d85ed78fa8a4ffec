//! The `worker` form: the body as a loop over block numbers (accelOS's virtual groups, DESIGN section 4).
//!
//! The design's worker lets thread 0 name each block behind two barriers, after the round trips for cap and number;
//! here these are taken ahead and one barrier tells everybody. What a worker still costs
//! (`cargo xtask bench form-cost`): the instructions at its start and at the first change of tickets, which the
//! instruction cache does not hold yet; a few instructions a block for each warp; warps that wait for the slowest of
//! their block at a ticket's end; and workers that run out of tickets at different times.
//!
//! A worker is a thread block of a rewritten kernel; a launch has as many of them as may reside. Each takes *tickets*,
//! each for some blocks of one row of the grid, until there are none or its SM has more workers than its cap. A ticket
//! is asked for either *ahead*, at the head of the last block of the one before, and the answer used at that block's
//! end, so that no round trip to memory stands between two tickets; or *late*, at that end. Some workers are *dealt*
//! their first ticket: its number is that of the worker in the launch. The code, in the order in which it stands, with
//! the parts that are seldom run last:
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
//! **Who speaks.** One warp *speaks* for the worker: it asks for tickets and reads the cap. The warps of a block reach
//! the head of the last block at different times, and its end in about the same order. So the first warp at the head
//! asks ahead, and it has time to find the next ticket's blocks while the others still run: on an SM with many warps an
//! instruction of one warp takes as long as one of each of them. Lane 0, which takes the ticket, and lane 1, which
//! reads the cap, are elected separately, each by an exchange in shared memory. In the first turn, and where tickets
//! are taken late, the first warp speaks. Where some warp has one lane only, or the second thread is not beside the
//! first, no lane beside lane 0 can read the cap, and tickets are taken *warily*: lane 0 reads the cap before each.
//!
//! **The first turn.** A dealt ticket's blocks are begun without a barrier. Before all threads have met at the first
//! `told`, only the first two touch the words in shared memory, and each reads only what it wrote itself. A fenced
//! kernel does not begin like this, because any of its threads may leave for a fault and record that in the words.
//!
//! **Divergence.** Lanes of a warp that diverge come together again in front of the body, and wait for each other there
//! (`bar.warp.sync`): lanes that came to the body alone would run it alone. `told`'s barrier does the same. Only the
//! first two lanes, behind `prepare`, need no wait: one way leads back from there, as from any branch, and the compiler
//! makes them reconverge. For the same reason a piece that is reached from both sides of the body is written twice.
//!
//! **Places.** `count` and `cap` of an SM are one word. A worker is a *member* from when it adds itself to `count`
//! until it subtracts itself, so that `count` is the number of members as long as there are tickets. A worker that
//! finds no ticket left leaves without subtracting itself, since no other is to take its place. For every `c` at most
//! `c` members have `hint < c`: a new member's hint is the number of members before it, and a renewed hint is the
//! number of the others at that moment; in both cases either the hint is not below `c` or there are at most `c`
//! members. So while `count > cap` at least `count - cap` members see that their hint is not below the cap, and come to
//! `over`; and the compare-and-swap there succeeds only while `count > cap`, so that leaving never brings the members
//! below the cap: one worker stays while the cap is above zero and tickets remain.
//!
//! A worker that was dealt its first ticket is no member while its SM's cap is
//! [`control::CAP_UNBOUND`](crate::control): its hint is below that cap and no other, so that it comes to `over` when
//! it sees a cap that binds, and counts itself like a newcomer.
//!
//! **Tickets.** An accepted ticket is always run, also by a worker that is over its cap; that worker leaves one ticket
//! later. So when all grids have ended, exactly the tickets below `next` have run, and a stop needs no word of its own:
//! the host sets all caps to zero. Tickets are accepted in ascending order, and each worker runs its own in that order.
//! The lowest ticket that is accepted and not finished is therefore being run, not held, so that blocks that wait only
//! for earlier blocks never wait in a circle. This fails for dealt tickets, whose workers may not have started, and for
//! tickets of several blocks, whose blocks run after blocks of later numbers; so kernels whose blocks wait for earlier
//! ones, or may hide such a wait, are dealt none and take one block at a time.
//!
//! **Words.** The threads of a worker share words in shared memory ([`ticket`]). The blocks of a ticket stand in two
//! sets of words that are used in turn, so that one barrier is enough: the thread that writes a set has passed a
//! barrier that came after all had read the set's last values. The cap is one word, which holds a value that the SM's
//! cap had since the last ticket was asked for. A dealt worker begins with [`CAP_UNBOUND`](crate::control), which
//! limits nobody.
//!
//! **Registers.** Live across a body are `ahead` and some predicates; if tickets have several blocks, also the block's
//! index on the axes that the body asks for, and `last`. `last` shares `ahead`'s register, because `ahead` is needed in
//! a ticket's last block only; the predicate `fin` says that this is the last block. The hint, and where the place word
//! is, stand in the words of shared memory instead. A kernel that needs many registers ([`HEAVY`]) takes one block at a
//! time and has its index from the ticket. The loop begins behind those instructions at the kernel's start that give
//! the same result in every block ([`start`]). A register that the body may read before it writes it is given a value
//! there, because undefined values of one block would otherwise be carried to the next and kept alive.
//!
//! Where threads of a block cannot meet ([`convergence::threads_meet`]) its warps run on by themselves to the end of
//! the ticket. The form is sound because every thread of the block passes the same barriers before it rejoins
//! ([`super::convergence`]).

/// Formats like `format!`, into a string with room for a piece of the loop's code from the start.
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

/// Returns whether workers may take more than one block at a time, if their kernel needs an estimated
/// `registers_estimate` registers per thread.
pub(super) fn takes_chunks(registers_estimate: u32) -> bool {
    registers_estimate < HEAVY
}

/// Returns for each function why it cannot be in the loop, callees aside, and what the loop relies on there.
pub(super) fn judge(program: &Program, calls: &Calls) -> Vec<Judged> {
    convergence::judge(program, calls)
}

/// Returns the first instruction that cannot be in the loop's body, with the reason.
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

/// Returns whether the effect of an instruction outlasts a block's body, or relies on being the first of its kind in a
/// thread's life: barrier objects that are set up without being torn down, register budgets, tensor memory, copies that
/// a barrier object tracks.
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

    /// Returns the statements of a worker, by label: of a kernel whose place is of that many axes and whose blocks may
    /// come in chunks.
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
