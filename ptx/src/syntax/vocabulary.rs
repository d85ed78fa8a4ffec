//! The fixed words of PTX, interned first, so that a name's id is an index into the tables here.
//!
//! One word may be a modifier, a directive and a special register at once (`shared`, `param`);
//! each table answers for its own use.

use super::intern::{Interner, Sym};
use crate::words::{
    AtomOp as A, CacheOp as K, Comparison as C, MemoryOrder as M, Mode, Part, Rounding as R,
    ScalarType as T, Scope, SpecialReg, StateSpace as S,
};
use std::sync::LazyLock;

/// Directives (PTX ISA sections 5 and 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directive {
    Version,
    Target,
    AddressSize,
    File,
    Loc,
    Section,
    Pragma,
    Alias,
    Entry,
    Func,
    /// `.extern`, `.visible`, `.weak`, `.common`.
    Linkage,
    /// `.global`, `.shared`, … at the head of a declaration.
    Space(S),
    /// `.maxntid`, `.reqntid`, … of kernels, and how many numbers each takes at most.
    LaunchBound(u8),
    /// `.noreturn` and the like, of functions.
    FunctionBound(u8),
    /// What kernels and functions may have.
    Performance(u8),
    Attribute,
    Align,
    Ptr,
    BranchTargets,
    CallTargets,
    CallPrototype,
}

/// What a modifier means when the opcode does not say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modifier {
    Type(T),
    Rounding(R),
    Space(S),
    Vector(u8),
    Atom(A),
    Order(M),
    Scope(Scope),
    Cache(K),
    Mode(Mode),
    Part(Part),
    Comparison(C),
    Ftz,
    Sat,
    Satfinite,
    Approx,
    Full,
    Relu,
    Nan,
    XorsignAbs,
    To,
    Sync,
    Aligned,
    Uni,
}

/// The tables, by name id.
pub(crate) struct Vocabulary {
    pub(crate) interner: Interner,
    modifiers: Vec<Option<Modifier>>,
    directives: Vec<Option<Directive>>,
    specials: Vec<Option<SpecialReg>>,
    /// `bra`, whose operand is a label.
    pub(crate) bra: Sym,
    /// `_`, the sink.
    pub(crate) sink: Sym,
    /// `WARP_SZ`, the constant 32.
    pub(crate) warp_sz: Sym,
    /// `generic`, the operator of initialisers.
    pub(crate) generic: Sym,
    /// `function_name` and `inlined_at` of `.loc`.
    pub(crate) function_name: Sym,
    pub(crate) inlined_at: Sym,
}

/// Returns what a word means as a modifier.
pub(crate) fn modifier_of(word: &str) -> Option<Modifier> {
    VOCABULARY.modifier(VOCABULARY.interner.find(word.as_bytes())?)
}

/// Returns the word of a type, without its dot.
pub(crate) fn word_of(ty: T) -> &'static str {
    let mut rows = MODIFIERS.iter();
    rows.find(|(_, modifier)| *modifier == Modifier::Type(ty))
        .map_or("b8", |(word, _)| word)
}

/// Returns whether the word is a directive's.
pub(crate) fn is_directive(word: &str) -> bool {
    let sym = VOCABULARY.interner.find(word.as_bytes());
    sym.is_some_and(|sym| VOCABULARY.directive(sym).is_some())
}

/// Built once a process.
pub(crate) static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(Vocabulary::new);

fn at<V: Copy>(table: &[Option<V>], sym: Sym) -> Option<V> {
    table.get(sym.0 as usize).copied().flatten()
}

impl Vocabulary {
    fn new() -> Self {
        let mut interner = Interner::new();
        fn fill<V: Copy>(
            i: &mut Interner,
            rows: impl IntoIterator<Item = (&'static str, V)>,
        ) -> Vec<Option<V>> {
            let mut table = Vec::new();
            for (word, value) in rows {
                let id = i.intern(word.as_bytes()).0 as usize;
                if table.len() <= id {
                    table.resize(id + 1, None);
                }
                table[id] = Some(value);
            }
            table
        }
        let modifiers = fill(&mut interner, MODIFIERS.iter().copied());
        let directives = fill(&mut interner, DIRECTIVES.iter().copied());
        let mut specials = fill(&mut interner, SPECIALS.iter().copied());
        for n in 0..32_u8 {
            let id = interner.intern(format!("%envreg{n}").as_bytes()).0 as usize;
            specials.resize(id + 1, None);
            specials[id] = Some(SpecialReg::Envreg(n));
        }
        let (bra, sink, warp_sz) = (
            interner.intern(b"bra"),
            interner.intern(b"_"),
            interner.intern(b"WARP_SZ"),
        );
        let (generic, function_name, inlined_at) = (
            interner.intern(b"generic"),
            interner.intern(b"function_name"),
            interner.intern(b"inlined_at"),
        );
        Self {
            modifiers,
            directives,
            specials,
            bra,
            sink,
            warp_sz,
            generic,
            function_name,
            inlined_at,
            interner,
        }
    }

    pub(crate) fn modifier(&self, sym: Sym) -> Option<Modifier> {
        at(&self.modifiers, sym)
    }

    pub(crate) fn directive(&self, sym: Sym) -> Option<Directive> {
        at(&self.directives, sym)
    }

    /// Returns whether the name has a meaning without a declaration: a special register, the sink or the warp's size.
    pub(crate) fn is_predefined(&self, sym: Sym) -> bool {
        self.special(sym).is_some() || sym == self.sink || sym == self.warp_sz
    }

    /// Returns the special register; those with axes are given for x.
    pub(crate) fn special(&self, sym: Sym) -> Option<SpecialReg> {
        at(&self.specials, sym)
    }
}

static MODIFIERS: &[(&str, Modifier)] = &[
    ("pred", Modifier::Type(T::Pred)),
    ("b8", Modifier::Type(T::B8)),
    ("b16", Modifier::Type(T::B16)),
    ("b32", Modifier::Type(T::B32)),
    ("b64", Modifier::Type(T::B64)),
    ("b128", Modifier::Type(T::B128)),
    ("u8", Modifier::Type(T::U8)),
    ("u16", Modifier::Type(T::U16)),
    ("u32", Modifier::Type(T::U32)),
    ("u64", Modifier::Type(T::U64)),
    ("s8", Modifier::Type(T::S8)),
    ("s16", Modifier::Type(T::S16)),
    ("s32", Modifier::Type(T::S32)),
    ("s64", Modifier::Type(T::S64)),
    ("f16", Modifier::Type(T::F16)),
    ("f16x2", Modifier::Type(T::F16x2)),
    ("bf16", Modifier::Type(T::Bf16)),
    ("bf16x2", Modifier::Type(T::Bf16x2)),
    ("tf32", Modifier::Type(T::Tf32)),
    ("f32", Modifier::Type(T::F32)),
    ("f64", Modifier::Type(T::F64)),
    ("e4m3", Modifier::Type(T::E4m3)),
    ("e5m2", Modifier::Type(T::E5m2)),
    ("e4m3x2", Modifier::Type(T::E4m3x2)),
    ("e5m2x2", Modifier::Type(T::E5m2x2)),
    ("e2m1", Modifier::Type(T::E2m1)),
    ("e2m3", Modifier::Type(T::E2m3)),
    ("e3m2", Modifier::Type(T::E3m2)),
    ("ue8m0", Modifier::Type(T::Ue8m0)),
    ("ue4m3", Modifier::Type(T::Ue4m3)),
    ("e2m1x2", Modifier::Type(T::E2m1x2)),
    ("e2m3x2", Modifier::Type(T::E2m3x2)),
    ("e3m2x2", Modifier::Type(T::E3m2x2)),
    ("ue8m0x2", Modifier::Type(T::Ue8m0x2)),
    ("s2f6x2", Modifier::Type(T::S2f6x2)),
    ("e4m3x4", Modifier::Type(T::E4m3x4)),
    ("e5m2x4", Modifier::Type(T::E5m2x4)),
    ("e2m1x4", Modifier::Type(T::E2m1x4)),
    ("e2m3x4", Modifier::Type(T::E2m3x4)),
    ("e3m2x4", Modifier::Type(T::E3m2x4)),
    ("u8x2", Modifier::Type(T::U8x2)),
    ("s8x2", Modifier::Type(T::S8x2)),
    ("u8x4", Modifier::Type(T::U8x4)),
    ("s8x4", Modifier::Type(T::S8x4)),
    ("b2", Modifier::Type(T::B2)),
    ("b4", Modifier::Type(T::B4)),
    ("b6", Modifier::Type(T::B6)),
    ("u2", Modifier::Type(T::U2)),
    ("s2", Modifier::Type(T::S2)),
    ("u16x2", Modifier::Type(T::U16x2)),
    ("s16x2", Modifier::Type(T::S16x2)),
    ("f32x2", Modifier::Type(T::F32x2)),
    ("b1", Modifier::Type(T::B1)),
    ("u4", Modifier::Type(T::U4)),
    ("s4", Modifier::Type(T::S4)),
    ("texref", Modifier::Type(T::TexRef)),
    ("samplerref", Modifier::Type(T::SamplerRef)),
    ("surfref", Modifier::Type(T::SurfRef)),
    ("rn", Modifier::Rounding(R::Rn)),
    ("rz", Modifier::Rounding(R::Rz)),
    ("rm", Modifier::Rounding(R::Rm)),
    ("rp", Modifier::Rounding(R::Rp)),
    ("rna", Modifier::Rounding(R::Rna)),
    ("rni", Modifier::Rounding(R::Rni)),
    ("rzi", Modifier::Rounding(R::Rzi)),
    ("rmi", Modifier::Rounding(R::Rmi)),
    ("rpi", Modifier::Rounding(R::Rpi)),
    ("const", Modifier::Space(S::Const)),
    ("global", Modifier::Space(S::Global)),
    ("local", Modifier::Space(S::Local)),
    ("param", Modifier::Space(S::Param)),
    ("param::entry", Modifier::Space(S::Param)),
    ("param::func", Modifier::Space(S::Param)),
    ("shared", Modifier::Space(S::Shared)),
    ("shared::cta", Modifier::Space(S::Shared)),
    ("shared::cluster", Modifier::Space(S::SharedCluster)),
    ("v2", Modifier::Vector(2)),
    ("v4", Modifier::Vector(4)),
    ("v8", Modifier::Vector(8)),
    ("x1", Modifier::Vector(1)),
    ("x2", Modifier::Vector(2)),
    ("x4", Modifier::Vector(4)),
    ("and", Modifier::Atom(A::And)),
    ("or", Modifier::Atom(A::Or)),
    ("xor", Modifier::Atom(A::Xor)),
    ("cas", Modifier::Atom(A::Cas)),
    ("exch", Modifier::Atom(A::Exch)),
    ("add", Modifier::Atom(A::Add)),
    ("inc", Modifier::Atom(A::Inc)),
    ("dec", Modifier::Atom(A::Dec)),
    ("min", Modifier::Atom(A::Min)),
    ("max", Modifier::Atom(A::Max)),
    ("popc", Modifier::Atom(A::Popc)),
    ("weak", Modifier::Order(M::Weak)),
    ("volatile", Modifier::Order(M::Volatile)),
    ("relaxed", Modifier::Order(M::Relaxed)),
    ("acquire", Modifier::Order(M::Acquire)),
    ("release", Modifier::Order(M::Release)),
    ("acq_rel", Modifier::Order(M::AcqRel)),
    ("sc", Modifier::Order(M::Sc)),
    ("mmio", Modifier::Order(M::Mmio)),
    ("cta", Modifier::Scope(Scope::Cta)),
    ("cluster", Modifier::Scope(Scope::Cluster)),
    ("gpu", Modifier::Scope(Scope::Gpu)),
    ("gl", Modifier::Scope(Scope::Gpu)),
    ("sys", Modifier::Scope(Scope::Sys)),
    ("ca", Modifier::Cache(K::Ca)),
    ("cg", Modifier::Cache(K::Cg)),
    ("cs", Modifier::Cache(K::Cs)),
    ("lu", Modifier::Cache(K::Lu)),
    ("cv", Modifier::Cache(K::Cv)),
    ("wb", Modifier::Cache(K::Wb)),
    ("wt", Modifier::Cache(K::Wt)),
    ("nc", Modifier::Cache(K::Nc)),
    ("up", Modifier::Mode(Mode::Up)),
    ("down", Modifier::Mode(Mode::Down)),
    ("bfly", Modifier::Mode(Mode::Bfly)),
    ("idx", Modifier::Mode(Mode::Idx)),
    ("all", Modifier::Mode(Mode::All)),
    ("any", Modifier::Mode(Mode::Any)),
    ("ballot", Modifier::Mode(Mode::Ballot)),
    ("f4e", Modifier::Mode(Mode::F4e)),
    ("b4e", Modifier::Mode(Mode::B4e)),
    ("rc8", Modifier::Mode(Mode::Rc8)),
    ("ecl", Modifier::Mode(Mode::Ecl)),
    ("ecr", Modifier::Mode(Mode::Ecr)),
    ("rc16", Modifier::Mode(Mode::Rc16)),
    ("l", Modifier::Mode(Mode::Left)),
    ("r", Modifier::Mode(Mode::Right)),
    ("clamp", Modifier::Mode(Mode::Clamp)),
    ("wrap", Modifier::Mode(Mode::Wrap)),
    ("finite", Modifier::Mode(Mode::Finite)),
    ("infinite", Modifier::Mode(Mode::Infinite)),
    ("number", Modifier::Mode(Mode::Number)),
    ("notanumber", Modifier::Mode(Mode::NotANumber)),
    ("normal", Modifier::Mode(Mode::Normal)),
    ("subnormal", Modifier::Mode(Mode::Subnormal)),
    ("hi", Modifier::Part(Part::Hi)),
    ("lo", Modifier::Part(Part::Lo)),
    ("wide", Modifier::Part(Part::Wide)),
    ("eq", Modifier::Comparison(C::Eq)),
    ("ne", Modifier::Comparison(C::Ne)),
    ("lt", Modifier::Comparison(C::Lt)),
    ("le", Modifier::Comparison(C::Le)),
    ("gt", Modifier::Comparison(C::Gt)),
    ("ge", Modifier::Comparison(C::Ge)),
    ("ls", Modifier::Comparison(C::Ls)),
    ("hs", Modifier::Comparison(C::Hs)),
    ("equ", Modifier::Comparison(C::Equ)),
    ("neu", Modifier::Comparison(C::Neu)),
    ("ltu", Modifier::Comparison(C::Ltu)),
    ("leu", Modifier::Comparison(C::Leu)),
    ("gtu", Modifier::Comparison(C::Gtu)),
    ("geu", Modifier::Comparison(C::Geu)),
    ("num", Modifier::Comparison(C::Num)),
    ("nan", Modifier::Comparison(C::Nan)),
    ("ftz", Modifier::Ftz),
    ("sat", Modifier::Sat),
    ("satfinite", Modifier::Satfinite),
    ("approx", Modifier::Approx),
    ("full", Modifier::Full),
    ("relu", Modifier::Relu),
    ("NaN", Modifier::Nan),
    ("xorsign", Modifier::XorsignAbs),
    ("to", Modifier::To),
    ("sync", Modifier::Sync),
    ("aligned", Modifier::Aligned),
    ("uni", Modifier::Uni),
];

static DIRECTIVES: &[(&str, Directive)] = &[
    ("version", Directive::Version),
    ("target", Directive::Target),
    ("address_size", Directive::AddressSize),
    ("file", Directive::File),
    ("loc", Directive::Loc),
    ("section", Directive::Section),
    ("pragma", Directive::Pragma),
    ("alias", Directive::Alias),
    ("entry", Directive::Entry),
    ("func", Directive::Func),
    ("extern", Directive::Linkage),
    ("visible", Directive::Linkage),
    ("weak", Directive::Linkage),
    ("common", Directive::Linkage),
    ("global", Directive::Space(S::Global)),
    ("const", Directive::Space(S::Const)),
    ("shared", Directive::Space(S::Shared)),
    ("local", Directive::Space(S::Local)),
    ("param", Directive::Space(S::Param)),
    ("reg", Directive::Space(S::Reg)),
    ("tex", Directive::Space(S::Tex)),
    ("maxntid", Directive::LaunchBound(3)),
    ("reqntid", Directive::LaunchBound(3)),
    ("minnctapersm", Directive::LaunchBound(1)),
    ("maxnctapersm", Directive::LaunchBound(1)),
    ("maxnreg", Directive::LaunchBound(1)),
    ("noreturn", Directive::FunctionBound(0)),
    ("explicitcluster", Directive::LaunchBound(0)),
    ("reqnctapercluster", Directive::LaunchBound(3)),
    ("maxclusterrank", Directive::LaunchBound(1)),
    ("blocksareclusters", Directive::LaunchBound(0)),
    ("abi_preserve", Directive::FunctionBound(1)),
    ("abi_preserve_control", Directive::FunctionBound(1)),
    ("unified", Directive::Performance(0)),
    ("attribute", Directive::Attribute),
    ("align", Directive::Align),
    ("ptr", Directive::Ptr),
    ("branchtargets", Directive::BranchTargets),
    ("calltargets", Directive::CallTargets),
    ("callprototype", Directive::CallPrototype),
];

static SPECIALS: &[(&str, SpecialReg)] = &[
    ("%tid", SpecialReg::Tid(0)),
    ("%ntid", SpecialReg::Ntid(0)),
    ("%ctaid", SpecialReg::Ctaid(0)),
    ("%nctaid", SpecialReg::Nctaid(0)),
    ("%laneid", SpecialReg::Laneid),
    ("%warpid", SpecialReg::Warpid),
    ("%nwarpid", SpecialReg::Nwarpid),
    ("%smid", SpecialReg::Smid),
    ("%nsmid", SpecialReg::Nsmid),
    ("%gridid", SpecialReg::Gridid),
    ("%lanemask_eq", SpecialReg::LanemaskEq),
    ("%lanemask_le", SpecialReg::LanemaskLe),
    ("%lanemask_lt", SpecialReg::LanemaskLt),
    ("%lanemask_ge", SpecialReg::LanemaskGe),
    ("%lanemask_gt", SpecialReg::LanemaskGt),
    ("%clock", SpecialReg::Clock),
    ("%clock_hi", SpecialReg::ClockHi),
    ("%clock64", SpecialReg::Clock64),
    ("%globaltimer", SpecialReg::Globaltimer),
    ("%globaltimer_lo", SpecialReg::GlobaltimerLo),
    ("%globaltimer_hi", SpecialReg::GlobaltimerHi),
    ("%dynamic_smem_size", SpecialReg::DynamicSmemSize),
    ("%total_smem_size", SpecialReg::TotalSmemSize),
    ("%aggr_smem_size", SpecialReg::TotalSmemSize),
    ("%reserved_smem_offset_begin", SpecialReg::ReservedSmem(0)),
    ("%reserved_smem_offset_end", SpecialReg::ReservedSmem(1)),
    ("%reserved_smem_offset_cap", SpecialReg::ReservedSmem(2)),
    ("%reserved_smem_offset_0", SpecialReg::ReservedSmem(3)),
    ("%reserved_smem_offset_1", SpecialReg::ReservedSmem(4)),
    ("%pm0", SpecialReg::Pm(0)),
    ("%pm1", SpecialReg::Pm(1)),
    ("%pm2", SpecialReg::Pm(2)),
    ("%pm3", SpecialReg::Pm(3)),
    ("%pm4", SpecialReg::Pm(4)),
    ("%pm5", SpecialReg::Pm(5)),
    ("%pm6", SpecialReg::Pm(6)),
    ("%pm7", SpecialReg::Pm(7)),
    ("%pm0_64", SpecialReg::Pm(0)),
    ("%pm1_64", SpecialReg::Pm(1)),
    ("%pm2_64", SpecialReg::Pm(2)),
    ("%pm3_64", SpecialReg::Pm(3)),
    ("%pm4_64", SpecialReg::Pm(4)),
    ("%pm5_64", SpecialReg::Pm(5)),
    ("%pm6_64", SpecialReg::Pm(6)),
    ("%pm7_64", SpecialReg::Pm(7)),
    ("%clusterid", SpecialReg::Clusterid(0)),
    ("%nclusterid", SpecialReg::Nclusterid(0)),
    ("%cluster_ctaid", SpecialReg::ClusterCtaid(0)),
    ("%cluster_nctaid", SpecialReg::ClusterNctaid(0)),
    ("%cluster_ctarank", SpecialReg::ClusterCtarank),
    ("%cluster_nctarank", SpecialReg::ClusterNctarank),
    ("%is_explicit_cluster", SpecialReg::IsExplicitCluster),
    ("%current_graph_exec", SpecialReg::CurrentGraphExec),
];
