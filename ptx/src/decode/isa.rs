//! The instruction set as a table: each opcode's words, operands, types and modifiers (PTX ISA section 9.7).
//!
//! Length: one row per opcode, in the order of the ISA's sections; splitting it would hide gaps.
//!
//! Wide: an opcode is one row.
//!
//! The first column is what a mnemonic begins with; the longest row that fits is taken. The third gives each operand
//! one letter; the fourth how many types the mnemonic names; the fifth the types and modifiers that it may name, in any
//! order (ptxas takes any), where `@` names a group of [`GROUPS`] and `*` all of [`WORDS`].
//!
//! | letter | operand |
//! |---|---|
//! | `d` | register written, of the first type |
//! | `s` `t` | register or constant read, of the first or second type |
//! | `U` `u` | 32-bit register written; 32-bit register or constant read |
//! | `v` `w` | register or vector loaded or stored, at least as wide as the type |
//! | `p` `q` | predicate written (or two); predicate read, maybe negated |
//! | `a` | address in brackets |
//! | `l` | label |
//! | `D` `x` | anything written; anything read |
//! | `?` | what follows may be left out |
//! | `*` | any operands may follow |

use super::Opcode;
use super::Opcode as O;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What the ISA says of one opcode.
#[derive(Debug)]
pub(crate) struct IsaRow {
    pub(crate) words: Vec<&'static str>,
    pub(crate) opcode: Opcode,
    /// Letters of the operands, `*` taken out.
    pub(crate) operands: &'static [u8],
    /// Fewest and most operands; `*` allows any number more.
    pub(crate) count: (usize, usize),
    /// Fewest and most types.
    pub(crate) types: (usize, usize),
    /// The words that may follow, sorted; `None` for any that PTX has.
    pub(crate) modifiers: Option<Vec<&'static str>>,
}

impl IsaRow {
    pub(crate) fn name(&self) -> String {
        self.words.join(".")
    }
}

/// Rows by first word, the longest first.
pub(crate) static ROWS: LazyLock<HashMap<&'static str, Vec<IsaRow>>> = LazyLock::new(|| {
    let mut rows: HashMap<&'static str, Vec<IsaRow>> = HashMap::new();
    for &(name, opcode, operands, types, modifiers) in TABLE {
        for name in name.split(' ') {
            let row = row(name, opcode, operands, types, modifiers);
            rows.entry(row.words[0]).or_default().push(row);
        }
    }
    for list in rows.values_mut() {
        list.sort_by_key(|r| std::cmp::Reverse(r.words.len()));
    }
    rows
});

/// Words that PTX has in any mnemonic, sorted.
pub(crate) static KNOWN: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let listed = TABLE
        .iter()
        .flat_map(|r| r.4.split(' '))
        .chain(GROUPS.iter().flat_map(|g| g.1.split(' ')))
        .chain(TABLE.iter().flat_map(|r| r.0.split([' ', '.'])))
        .chain(WORDS.split_whitespace());
    let mut all: Vec<&str> = listed.filter(|w| !w.starts_with(['@', '*'])).collect();
    all.sort_unstable();
    all.dedup();
    all
});

/// Returns whether any instruction has this word, shapes such as `m16n8k16` and `16x64b` included.
pub(crate) fn is_known(word: &str) -> bool {
    let is_shape = || {
        let letters = word.bytes().filter(|b| !b.is_ascii_digit());
        matches!(
            letters.collect::<Vec<u8>>().as_slice(),
            b"mnk" | b"mn" | b"xb" | b"xbx"
        )
    };
    KNOWN.binary_search(&word).is_ok() || is_shape()
}

fn row(
    name: &'static str,
    opcode: Opcode,
    operands: &'static str,
    types: &str,
    modifiers: &'static str,
) -> IsaRow {
    let letters = operands.trim_end_matches('*');
    let fewest = letters.find('?').unwrap_or(letters.len());
    let most = letters.bytes().filter(|&b| b != b'?').count();
    let words = modifiers
        .split_whitespace()
        .flat_map(|w| match w.strip_prefix('@') {
            Some(group) => GROUPS
                .iter()
                .find(|g| g.0 == group)
                .map_or("", |g| g.1)
                .split(' '),
            None => w.split(' '),
        });
    let mut list: Vec<&'static str> = words.collect();
    list.sort_unstable();
    let (low, high) = types.split_once('-').unwrap_or((types, types));
    IsaRow {
        words: name.split('.').collect(),
        opcode,
        operands: letters.as_bytes(),
        count: (
            fewest,
            if operands.ends_with('*') {
                usize::MAX
            } else {
                most
            },
        ),
        types: (low.parse().unwrap_or(0), high.parse().unwrap_or(usize::MAX)),
        modifiers: (modifiers != "*").then_some(list),
    }
}

/// Names for lists of words that many rows share.
const GROUPS: &[(&str, &str)] = &[
    ("int", "u16 u32 u64 s16 s32 s64"),
    ("bits", "b16 b32 b64"),
    ("half", "f16 f16x2 bf16 bf16x2"),
    ("float", "f32 f64"),
    ("round", "rn rz rm rp"),
    (
        "compare",
        "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan",
    ),
    (
        "memory",
        "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
    ),
    ("scope", "cta cluster gpu sys"),
    (
        "space",
        "const global local param param::entry param::func shared shared::cta shared::cluster",
    ),
    ("vector", "v2 v4 v8"),
    (
        "level",
        "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B level::eviction_priority evict_first evict_last evict_normal evict_unchanged no_allocate",
    ),
    ("operation", "and or xor cas exch add inc dec min max"),
];

/// Words of the rows that take any.
const WORDS: &str = "
    1d 2d 3d 4d 5d a1d a2d cube acube 2dms a2dms 1d_buffer base level grad zero clamp trap wrap b p
    r g a c d width height depth channel_data_type channel_order normalized_coords filter_mode addr_mode_0 addr_mode_1
    addr_mode_2 force_unnormalized_coords array_size num_mipmap_levels num_samples memory_layout
    v2 v4 v8 b8 b16 b32 b64 b128 b1024 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 tf32 f32 f32x2 f64 b1 b2 b4 b6 u2 u4 s2 s4
    e4m3 e5m2 e2m1 e3m2 e2m3 ue8m0 ue4m3 e4m3x2 e5m2x2 e2m1x2 e3m2x2 e2m3x2 ue8m0x2 e4m3x4 e5m2x4 e2m1x4 e3m2x4 e2m3x4
    s8x4 u8x4 s8x2 u8x2 s2f6x2 u16x2 s16x2 f16x4 bf16x4 f32x4 pred
    row col sync aligned sp sp::ordered_metadata and or xor popc add min max minabs maxabs inc dec cas exch satfinite sat relu ftz noftz
    NaN abs xorsign approx full rn rz rm rp rna rs rni rzi rmi rpi
    kind::i8 kind::f8f6f4 kind::mxf8f6f4 kind::mxf4 kind::tf32 kind::f16 kind::mxf4nvf4 block_scale scale_vec::1X
    scale_vec::2X scale_vec::4X block16 block32 ws ashift cta_group::1 cta_group::2 multicast::cluster multicast::cluster::all
    collector::a::fill collector::a::use collector::a::lastuse collector::a::discard
    collector::b0::fill collector::b0::use collector::b0::lastuse collector::b0::discard
    collector::b1::fill collector::b1::use collector::b1::lastuse collector::b1::discard
    collector::b2::fill collector::b2::use collector::b2::lastuse collector::b2::discard
    collector::b3::fill collector::b3::use collector::b3::lastuse collector::b3::discard
    x1 x2 x4 x8 x16 x32 x64 x128 pack::16b unpack::16b warpx2::02_13 warpx2::01_23 warpx4 down num trans
    shared shared::cta shared::cluster global const local param param::entry param::func
    b8x16 b4x16_p64 b6x16_p32 src_fmt dst_fmt m8n8 m16n16 m16n8
    mbarrier mbarrier::complete_tx::bytes mbarrier::meet_tx::bytes mbarrier::arrive::one bulk_group
    tile tile::gather4 tile::scatter4 im2col im2col_no_offs im2col::w im2col::w::128 L1 L2 L2::cache_hint read cp_mask ignore_oob
    weak volatile relaxed acquire release acq_rel sc mmio cta cluster gpu sys gl
    L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::evict_normal L2::evict_first
    L2::evict_last L2::evict_unchanged L2::no_allocate L2::64B L2::128B L2::256B
    parity expect_tx noComplete noinc async before_thread_sync after_thread_sync global_address rank box_dim global_dim
    global_stride element_stride elemtype interleave_layout swizzle_mode swizzle_atomicity fill_mode proxy alias
    proxy::alias proxy::async proxy::async::global proxy::async::shared::cta proxy::async::shared::cluster
    proxy::tensormap proxy::tensormap::generic async::global async::shared::cta async::shared::cluster generic
    async::generic tensormap::generic tensormap valid_addr to mbarrier_init sync_restrict::shared::cta
    sync_restrict::shared::cluster sync_restrict::shared::cluster::read acc::f32 acc::f16 is_canceled get_first_ctaid
    get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z fractional range cvt eq ne lt le gt ge scaled::n2::ue8m0
    shr7 shr15 po clamp wrap scale::dtype no_membermask_overlap oob uni unified launch_dependents wait negAB
";

#[rustfmt::skip]
static TABLE: &[(&str, Opcode, &str, &str, &str)] = &[
    // 9.7.1 integer, 9.7.2 extended precision, 9.7.3 to 9.7.5 floating point
    ("add", O::Add, "dss", "1-2", "@int @half @float u16x2 s16x2 f32x2 u8x4 s8x4 @round ftz sat cc"),
    ("sub", O::Sub, "dss", "1-2", "@int @half @float u16x2 s16x2 f32x2 u8x4 s8x4 @round ftz sat cc"),
    ("mul", O::Mul, "dss", "1", "@int @half @float f32x2 @round ftz sat hi lo wide"),
    ("mad", O::Mad, "dsss", "1", "@int @float @round ftz sat hi lo wide cc"),
    ("mul24", O::Mul24, "dss", "1", "u32 s32 hi lo"),
    ("mad24", O::Mad24, "dsss", "1", "u32 s32 hi lo sat"),
    ("fma", O::Fma, "dsss", "1-2", "@half @float f32x2 @round ftz sat relu oob"),
    ("div", O::Div, "dss", "1", "@int @float @round ftz approx full"),
    ("rem", O::Rem, "dss", "1", "@int"),
    ("abs", O::Abs, "ds", "1", "s16 s32 s64 @half @float ftz"),
    ("neg", O::Neg, "ds", "1", "s16 s32 s64 @half @float ftz s16x2"),
    ("min", O::Min, "dss?s", "1", "@int u16x2 s16x2 u8x4 s8x4 @half @float ftz NaN xorsign abs relu"),
    ("max", O::Max, "dss?s", "1", "@int u16x2 s16x2 u8x4 s8x4 @half @float ftz NaN xorsign abs relu"),
    ("sad", O::Sad, "dsss", "1", "@int"),
    ("copysign", O::Copysign, "dss", "1", "@float"),
    ("addc", O::Addc, "dss", "1", "u32 s32 u64 s64 cc"),
    ("subc", O::Subc, "dss", "1", "u32 s32 u64 s64 cc"),
    ("madc", O::Madc, "dsss", "1", "u32 s32 u64 s64 hi lo cc"),
    ("dp4a", O::Dp4a, "Uuuu", "2", "u32 s32"),
    ("dp2a", O::Dp2a, "Uuuu", "2", "u32 s32 lo hi"),
    ("rcp", O::Rcp, "ds", "1", "@float @round approx ftz"),
    ("sqrt", O::Sqrt, "ds", "1", "@float @round approx ftz"),
    ("rsqrt", O::Rsqrt, "ds", "1", "@float approx ftz"),
    ("sin", O::Sin, "ds", "1", "f32 approx ftz 2pi"),
    ("cos", O::Cos, "ds", "1", "f32 approx ftz 2pi"),
    ("lg2", O::Lg2, "ds", "1", "f32 approx ftz"),
    ("ex2", O::Ex2, "ds", "1", "f32 @half approx ftz"),
    ("tanh", O::Tanh, "ds", "1", "f32 @half approx"),
    ("testp", O::TestP, "ps", "1", "@float finite infinite number notanumber normal subnormal"),
    // 9.7.8 logic and shift, the bit operations of 9.7.1
    ("and", O::And, "dss", "1", "pred @bits"),
    ("or", O::Or, "dss", "1", "pred @bits"),
    ("xor", O::Xor, "dss", "1", "pred @bits"),
    ("not", O::Not, "ds", "1", "pred @bits"),
    ("cnot", O::Cnot, "ds", "1", "@bits"),
    ("shl", O::Shl, "dsu", "1", "@bits"),
    ("shr", O::Shr, "dsu", "1", "@bits @int"),
    ("shf", O::Shf, "dssu", "1", "b32 l r clamp wrap"),
    ("popc", O::Popc, "Us", "1", "b32 b64"),
    ("clz", O::Clz, "Us", "1", "b32 b64"),
    ("bfind", O::Bfind, "Us", "1", "u32 u64 s32 s64 shiftamt"),
    ("brev", O::Brev, "ds", "1", "b32 b64"),
    ("bfe", O::Bfe, "dsuu", "1", "u32 u64 s32 s64"),
    ("bfi", O::Bfi, "dssuu", "1", "b32 b64"),
    ("bmsk", O::Bmsk, "Uuu", "1", "b32 clamp wrap"),
    ("fns", O::Fns, "Usus", "1", "b32"),
    ("szext", O::Szext, "dsu", "1", "u32 s32 clamp wrap"),
    ("prmt", O::Prmt, "dsss", "1", "b32 f4e b4e rc8 ecl ecr rc16"),
    ("lop3", O::Lop3, "Dsssx?q", "1", "b32 and or"),
    // 9.7.17 video
    ("vadd", O::Vadd, "Dxx?x", "3", "u32 s32 sat add min max"),
    ("vsub", O::Vsub, "Dxx?x", "3", "u32 s32 sat add min max"),
    ("vabsdiff", O::Vabsdiff, "Dxx?x", "3", "u32 s32 sat add min max"),
    ("vmin", O::Vmin, "Dxx?x", "3", "u32 s32 sat add min max"),
    ("vmax", O::Vmax, "Dxx?x", "3", "u32 s32 sat add min max"),
    ("vshl", O::Vshl, "Dxx?x", "3", "u32 s32 sat add min max clamp wrap"),
    ("vshr", O::Vshr, "Dxx?x", "3", "u32 s32 sat add min max clamp wrap"),
    ("vmad", O::Vmad, "Dxxx", "3", "u32 s32 sat po shr7 shr15"),
    ("vset", O::Vset, "Dxx?x", "2", "u32 s32 add min max eq ne lt le gt ge"),
    ("vadd2", O::Vadd2, "Dxxx", "3", "u32 s32 sat add"),
    ("vsub2", O::Vsub2, "Dxxx", "3", "u32 s32 sat add"),
    ("vavrg2", O::Vavrg2, "Dxxx", "3", "u32 s32 sat add"),
    ("vabsdiff2", O::Vabsdiff2, "Dxxx", "3", "u32 s32 sat add"),
    ("vmin2", O::Vmin2, "Dxxx", "3", "u32 s32 sat add"),
    ("vmax2", O::Vmax2, "Dxxx", "3", "u32 s32 sat add"),
    ("vset2", O::Vset2, "Dxxx", "2", "u32 s32 add eq ne lt le gt ge"),
    ("vadd4", O::Vadd4, "Dxxx", "3", "u32 s32 sat add"),
    ("vsub4", O::Vsub4, "Dxxx", "3", "u32 s32 sat add"),
    ("vavrg4", O::Vavrg4, "Dxxx", "3", "u32 s32 sat add"),
    ("vabsdiff4", O::Vabsdiff4, "Dxxx", "3", "u32 s32 sat add"),
    ("vmin4", O::Vmin4, "Dxxx", "3", "u32 s32 sat add"),
    ("vmax4", O::Vmax4, "Dxxx", "3", "u32 s32 sat add"),
    ("vset4", O::Vset4, "Dxxx", "2", "u32 s32 add eq ne lt le gt ge"),
    // 9.7.6 and 9.7.7 comparison and selection
    ("setp", O::Setp, "pss?q", "1", "@compare and or xor ftz @bits @int @half @float"),
    ("set", O::Set, "dtt?q", "2", "@compare and or xor ftz @bits @int @half @float"),
    ("selp", O::Selp, "dssq", "1", "@bits @int @float"),
    ("slct", O::Slct, "dsst", "2", "ftz @bits @int @float"),
    // 9.7.9 data movement and conversion
    ("mov", O::Mov, "Dx", "1", "pred b128 @bits @int @float v2 v4"),
    ("cvt", O::Cvt, "Dx?xxxxx", "2", "*"),
    ("cvt.pack", O::CvtPack, "Dxx?x", "2-3", "*"),
    ("cvta", O::Cvta, "dx", "1", "to @space u32 u64"),
    ("isspacep", O::Isspacep, "px", "0", "@space"),
    ("istypep", O::Istypep, "px", "1", "texref samplerref surfref"),
    ("ld", O::Ld, "va?x", "1", "weak volatile relaxed acquire mmio @scope @space ca cg cs lu cv nc @level @vector @memory unified"),
    ("ldu", O::Ldu, "va", "1", "global @vector @memory"),
    ("st", O::St, "aw?x", "1", "weak volatile relaxed release mmio @scope @space wb cg cs wt @level @vector @memory"),
    ("st.async", O::StAsync, "ax?a", "1", "*"),
    ("st.bulk", O::StBulk, "axx", "0", "*"),
    ("ldmatrix", O::LdMatrix, "Da", "0-1", "*"),
    ("stmatrix", O::StMatrix, "ax", "1", "*"),
    ("movmatrix", O::MovMatrix, "Ux", "1", "sync aligned m8n8 trans b16"),
    ("prefetch", O::Prefetch, "a", "0", "@space @level L1 L2"),
    ("prefetch.tensormap prefetch.const.tensormap prefetch.param.tensormap", O::PrefetchTensormap, "a", "0", ""),
    ("prefetchu", O::Prefetchu, "a", "0", "L1"),
    ("discard", O::Discard, "ax", "0", "global L2"),
    ("applypriority", O::Applypriority, "ax", "0", "global L2::evict_normal"),
    ("createpolicy", O::Createpolicy, "D*", "1", "*"),
    ("mapa", O::Mapa, "dxu", "1", "shared::cluster u32 u64 s32 s64"),
    ("getctarank", O::Getctarank, "Ux", "1", "shared::cluster u32 u64"),
    ("atom", O::Atom, "vaw?xx", "1", "@operation relaxed acquire release acq_rel @scope global shared shared::cta shared::cluster @level @vector @memory @half noftz"),
    ("red", O::Red, "aw?x", "1", "and or xor add inc dec min max relaxed release acq_rel @scope global shared shared::cta shared::cluster @level @vector @memory @half noftz"),
    ("red.async", O::RedAsync, "ax?a", "1", "*"),
    ("multimem.ld_reduce", O::MultimemLdReduce, "Da?x", "1", "*"),
    ("multimem.st", O::MultimemSt, "ax?x", "1", "*"),
    ("multimem.red", O::MultimemRed, "ax?x", "1", "*"),
    ("multimem.cp.async.bulk", O::CpAsyncBulk, "*", "0", "*"),
    ("multimem.cp.reduce.async.bulk", O::CpReduceAsyncBulk, "*", "1", "*"),
    ("shfl", O::Shfl, "Dxuu?u", "1", "b32 sync up down bfly idx"),
    ("vote", O::Vote, "Dq?u", "1", "sync all any uni ballot pred b32"),
    ("match", O::Match, "Dxu", "1", "sync all any b32 b64"),
    ("redux", O::Redux, "dsu", "1", "sync add min max and or xor u32 s32 b32 f32 abs NaN"),
    ("activemask", O::Activemask, "d", "1", "b32"),
    ("elect", O::Elect, "Du", "0", "sync"),
    ("cp.async", O::CpAsync, "aax?xx", "0", "@space @level ca cg"),
    ("cp.async.commit_group", O::CpAsyncCommitGroup, "", "0", ""),
    ("cp.async.wait_group", O::CpAsyncWaitGroup, "x", "0", ""),
    ("cp.async.wait_all", O::CpAsyncWaitAll, "", "0", ""),
    ("cp.async.mbarrier.arrive", O::CpAsyncMbarrierArrive, "a", "1", "noinc shared shared::cta b64"),
    ("cp.async.bulk", O::CpAsyncBulk, "aax*", "0", "*"),
    ("cp.async.bulk.commit_group", O::CpAsyncBulkCommitGroup, "", "0", ""),
    ("cp.async.bulk.wait_group", O::CpAsyncBulkWaitGroup, "x", "0", "read"),
    ("cp.async.bulk.prefetch", O::CpAsyncBulkPrefetch, "ax?x", "0", "*"),
    ("cp.async.bulk.tensor", O::CpAsyncBulkTensor, "aa*", "0", "*"),
    ("cp.async.bulk.prefetch.tensor", O::CpAsyncBulkPrefetchTensor, "a*", "0", "*"),
    ("cp.reduce.async.bulk", O::CpReduceAsyncBulk, "aax*", "1", "*"),
    ("cp.reduce.async.bulk.tensor", O::CpReduceAsyncBulkTensor, "aa*", "0", "*"),
    ("tensormap.replace", O::TensormapReplace, "ax?x", "1", "*"),
    ("tensormap.cp_fenceproxy", O::TensormapCpFenceproxy, "aax", "0", "*"),
    // 9.7.10 textures, 9.7.11 surfaces
    ("tex", O::Tex, "Da*", "2", "*"),
    ("tld4", O::Tld4, "Da*", "2", "*"),
    ("txq", O::Txq, "Da?x", "1", "*"),
    ("suld", O::Suld, "Da", "1", "*"),
    ("sust", O::Sust, "ax", "1", "*"),
    ("sured", O::Sured, "ax", "1", "*"),
    ("suq", O::Suq, "Da", "1", "*"),
    // 9.7.12 control flow
    ("bra", O::Bra, "l", "0", "uni"),
    ("brx.idx", O::BrxIdx, "ul", "0", "uni"),
    ("call", O::Call, "*", "0", "uni"),
    ("ret", O::Ret, "", "0", "uni"),
    ("exit", O::Exit, "", "0", ""),
    ("trap", O::Trap, "", "0", ""),
    ("brkpt", O::Brkpt, "", "0", ""),
    ("nanosleep", O::Nanosleep, "u", "1", "u32"),
    ("pmevent", O::Pmevent, "x", "0", "mask"),
    ("setmaxnreg", O::Setmaxnreg, "x", "1", "inc dec sync aligned u32"),
    // 9.7.13 synchronisation
    ("bar.sync bar.cta.sync barrier.sync barrier.cta.sync", O::Bar, "u?u", "0", "aligned"),
    ("bar.red bar.cta.red barrier.red barrier.cta.red", O::BarRed, "Dxx?x", "1", "aligned popc and or pred u32"),
    ("bar.arrive bar.cta.arrive barrier.arrive barrier.cta.arrive", O::BarArrive, "uu", "0", "aligned"),
    ("bar.warp.sync", O::BarWarpSync, "u", "0", ""),
    ("barrier.cluster.arrive", O::BarrierClusterArrive, "", "0", "release relaxed aligned"),
    ("barrier.cluster.wait", O::BarrierClusterWait, "", "0", "acquire aligned"),
    ("membar", O::Membar, "", "0", "cta gl sys gpu cluster"),
    ("membar.proxy", O::FenceProxy, "", "0", "*"),
    ("fence", O::Fence, "", "0", "acq_rel acquire release sc @scope sync_restrict::shared::cta sync_restrict::shared::cluster"),
    ("fence.mbarrier_init", O::FenceMbarrierInit, "", "0", "release cluster"),
    ("fence.proxy", O::FenceProxy, "*", "0", "*"),
    ("mbarrier.init", O::MbarrierInit, "au", "1", "shared shared::cta b64"),
    ("mbarrier.inval", O::MbarrierInval, "a", "1", "shared shared::cta b64"),
    ("mbarrier.arrive", O::MbarrierArrive, "D?xx", "1", "*"),
    ("mbarrier.arrive.expect_tx", O::MbarrierArriveExpectTx, "Dx?x", "1", "*"),
    ("mbarrier.arrive_drop", O::MbarrierArriveDrop, "D?xx", "1", "*"),
    ("mbarrier.arrive_drop.expect_tx", O::MbarrierArriveDropExpectTx, "Dx?x", "1", "*"),
    ("mbarrier.test_wait", O::MbarrierTestWait, "Dax", "1", "*"),
    ("mbarrier.try_wait", O::MbarrierTryWait, "Dax?x", "1", "*"),
    ("mbarrier.expect_tx", O::MbarrierExpectTx, "au", "1", "*"),
    ("mbarrier.complete_tx", O::MbarrierCompleteTx, "au", "1", "*"),
    ("mbarrier.pending_count", O::MbarrierPendingCount, "Dx", "1", "b64"),
    ("griddepcontrol", O::Griddepcontrol, "", "0", "launch_dependents wait"),
    ("clusterlaunchcontrol.try_cancel", O::ClusterlaunchcontrolTryCancel, "aa", "1", "*"),
    ("clusterlaunchcontrol.query_cancel", O::ClusterlaunchcontrolQueryCancel, "Dx", "1-2", "*"),
    // 9.7.14 to 9.7.16 matrices
    ("wmma.load", O::WmmaLoad, "Da?x", "1", "*"),
    ("wmma.store", O::WmmaStore, "ax?x", "1", "*"),
    ("wmma.mma", O::WmmaMma, "Dxxx", "1-4", "*"),
    ("mma", O::Mma, "Dxxx*", "4-5", "*"),
    ("wgmma.mma_async", O::WgmmaMmaAsync, "D*", "3", "*"),
    ("wgmma.fence", O::WgmmaFence, "", "0", "sync aligned"),
    ("wgmma.commit_group", O::WgmmaCommitGroup, "", "0", "sync aligned"),
    ("wgmma.wait_group", O::WgmmaWaitGroup, "x", "0", "sync aligned"),
    ("tcgen05.alloc", O::Tcgen05Alloc, "ax", "1", "*"),
    ("tcgen05.dealloc", O::Tcgen05Dealloc, "xx", "1", "*"),
    ("tcgen05.relinquish_alloc_permit", O::Tcgen05RelinquishAllocPermit, "", "0", "*"),
    ("tcgen05.ld", O::Tcgen05Ld, "Da*", "1-2", "*"),
    ("tcgen05.ld.red", O::Tcgen05LdRed, "Da*", "1-2", "*"),
    ("tcgen05.st", O::Tcgen05St, "ax*", "1", "*"),
    ("tcgen05.wait", O::Tcgen05Wait, "", "0", "ld st sync aligned"),
    ("tcgen05.wait::ld tcgen05.wait::st", O::Tcgen05Wait, "", "0", "sync aligned"),
    ("tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync", O::Tcgen05Fence, "", "0", ""),
    ("tcgen05.cp", O::Tcgen05Cp, "ax", "0", "*"),
    ("tcgen05.shift", O::Tcgen05Shift, "a", "0", "*"),
    ("tcgen05.mma", O::Tcgen05Mma, "axx*", "0", "*"),
    ("tcgen05.commit", O::Tcgen05Commit, "a?x", "1", "*"),
    // 9.7.18 and 9.7.19 stack and the rest
    ("alloca", O::Alloca, "Dx?x", "1", "u32 u64"),
    ("stacksave", O::StackSave, "D", "1", "u32 u64"),
    ("stackrestore", O::StackRestore, "x", "1", "u32 u64"),
];

#[cfg(test)]
mod tests {
    use super::{GROUPS, ROWS, TABLE};

    #[test]
    fn every_group_and_letter_is_defined() {
        for row in TABLE {
            for word in row.4.split(' ').filter_map(|w| w.strip_prefix('@')) {
                assert!(GROUPS.iter().any(|g| g.0 == word), "{word}");
            }
            assert!(
                row.2.bytes().all(|b| b"dstUuvwpqalDx?*".contains(&b)),
                "{}",
                row.2
            );
        }
        assert!(ROWS.len() > 120, "{}", ROWS.len());
    }
}
