//! What concerns a warp or a block: operations across lanes, control flow, barriers.

use super::Row;

pub(super) const LANES: &[Row] = &[
    (
        "shfl.sync.{up,down,bfly,idx}.b32",
        "%r0|%p0, %r1, 1, 31, -1",
    ),
    ("shfl.{up,down,bfly,idx}.b32", "%r0, %r1, 1, 31"),
    ("vote.sync.{all,any,uni}.pred", "%p0, %p1, -1"),
    ("vote.sync.ballot.b32", "%r0, %p1, -1"),
    ("match.any.sync.b32", "%r0, %r1, -1"),
    ("match.any.sync.b64", "%r0, %l1, -1"),
    ("match.all.sync.b32", "%r0|%p0, %r1, -1"),
    ("match.all.sync.b64", "%r0|%p0, %l1, -1"),
    ("redux.sync.{add,min,max}.{u32,s32}", "%r0, %r1, -1"),
    ("redux.sync.{and,or,xor}.b32", "%r0, %r1, -1"),
    ("redux.sync.{min,max}{,.abs}{,.NaN}.f32", "%f0, %f1, -1"),
    ("activemask.b32", "%r0"),
    ("elect.sync", "%r0|%p0, -1"),
];

pub(super) const CONTROL: &[Row] = &[
    ("bra", "END"),
    ("bra.uni", "END"),
    ("call{,.uni}", "f"),
    ("exit", ""),
    ("ret", ""),
    ("trap", ""),
    ("brkpt", ""),
    ("bar.sync", "0"),
    ("bar.arrive", "1, 64"),
    ("bar.red.{and,or}.pred", "%p0, 0, %p1"),
    ("bar.red.popc.u32", "%r0, 0, %p1"),
    ("barrier.sync{,.aligned}", "0"),
    ("barrier.arrive{,.aligned}", "1, 64"),
    ("bar.warp.sync", "-1"),
    ("membar.{cta,gl,sys}", ""),
    ("fence.{sc,acq_rel}.{cta,gpu,sys}", ""),
    ("nanosleep.u32", "100"),
    ("cp.async.ca.shared.global", "[%r0], [%l1], 16"),
    ("cp.async.cg.shared.global", "[%r0], [%l1], 16"),
    ("cp.async.commit_group", ""),
    ("cp.async.wait_group", "0"),
    ("cp.async.wait_all", ""),
    ("mbarrier.init.shared.b64", "[%r0], 32"),
    ("mbarrier.inval.shared.b64", "[%r0]"),
    ("mbarrier.arrive.shared.b64", "%l0, [%r0]"),
    ("mbarrier.pending_count.b64", "%r0, %l0"),
    ("mbarrier.test_wait.shared.b64", "%p0, [%r0], %l0"),
    ("mbarrier.try_wait.shared.b64", "%p0, [%r0], %l0"),
];
