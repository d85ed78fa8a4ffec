//! The fixed words of PTX, interned first, so that a name's id is an index into the tables here.
//!
//! One word may be a modifier, a directive and a special register at once (`shared`, `param`);
//! each table answers for its own use.

use super::intern::{Interner, Sym};
use crate::words::{
    AtomOp, CacheOp, Comparison, MemoryOrder, Mode, Part, Rounding, ScalarType as T, Scope,
    SpecialReg as R, StateSpace as S,
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
    Rounding(Rounding),
    Space(S),
    Vector(u8),
    Atom(AtomOp),
    Order(MemoryOrder),
    Scope(Scope),
    Cache(CacheOp),
    Mode(Mode),
    Part(Part),
    Comparison(Comparison),
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
    specials: Vec<Option<R>>,
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
    let mut words = T::WORDS.iter();
    words.find(|w| w.1 == ty).map_or("b8", |(word, _)| word)
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
            interner: &mut Interner,
            rows: impl Iterator<Item = (impl AsRef<[u8]>, V)>,
        ) -> Vec<Option<V>> {
            let mut table = Vec::new();
            for (word, value) in rows {
                let id = interner.intern(word.as_ref()).0 as usize;
                if table.len() <= id {
                    table.resize(id + 1, None);
                }
                table[id] = Some(value);
            }
            table
        }
        let directives = DIRECTIVES
            .iter()
            .flat_map(|(directive, words)| words.split(' ').map(|word| (word, *directive)));
        let named = SPECIALS
            .iter()
            .flat_map(|(special, words)| words.split(' ').map(|w| (format!("%{w}"), *special)));
        let counters = (0..8).flat_map(|n| {
            [
                (format!("%pm{n}"), R::Pm(n)),
                (format!("%pm{n}_64"), R::Pm(n + 8)),
            ]
        });
        let environment = (0..32).map(|n| (format!("%envreg{n}"), R::Envreg(n)));
        Self {
            modifiers: fill(&mut interner, modifiers()),
            directives: fill(&mut interner, directives),
            specials: fill(&mut interner, named.chain(counters).chain(environment)),
            bra: interner.intern(b"bra"),
            sink: interner.intern(b"_"),
            warp_sz: interner.intern(b"WARP_SZ"),
            generic: interner.intern(b"generic"),
            function_name: interner.intern(b"function_name"),
            inlined_at: interner.intern(b"inlined_at"),
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
    pub(crate) fn special(&self, sym: Sym) -> Option<R> {
        at(&self.specials, sym)
    }
}

/// Returns every modifier's word and meaning.
fn modifiers() -> impl Iterator<Item = (&'static str, Modifier)> {
    fn of<V: Copy>(
        words: &'static [(&'static str, V)],
        means: fn(V) -> Modifier,
    ) -> impl Iterator<Item = (&'static str, Modifier)> {
        words.iter().map(move |&(word, value)| (word, means(value)))
    }
    of(T::WORDS, Modifier::Type)
        .chain(of(Rounding::WORDS, Modifier::Rounding))
        .chain(of(S::WORDS, Modifier::Space))
        .chain(of(AtomOp::WORDS, Modifier::Atom))
        .chain(of(MemoryOrder::WORDS, Modifier::Order))
        .chain(of(Scope::WORDS, Modifier::Scope))
        .chain(of(CacheOp::WORDS, Modifier::Cache))
        .chain(of(Mode::WORDS, Modifier::Mode))
        .chain(of(Part::WORDS, Modifier::Part))
        .chain(of(Comparison::WORDS, Modifier::Comparison))
        .chain(of(COUNTS, Modifier::Vector))
        .chain(FLAGS.iter().copied())
}

/// Modifiers that are counts.
static COUNTS: &[(&str, u8)] = &[
    ("v2", 2),
    ("v4", 4),
    ("v8", 8),
    ("x1", 1),
    ("x2", 2),
    ("x4", 4),
];

/// Modifiers of which an instruction has each or has it not.
static FLAGS: &[(&str, Modifier)] = &[
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

/// Directives with the words that mean each.
static DIRECTIVES: &[(Directive, &str)] = &[
    (Directive::Version, "version"),
    (Directive::Target, "target"),
    (Directive::AddressSize, "address_size"),
    (Directive::File, "file"),
    (Directive::Loc, "loc"),
    (Directive::Section, "section"),
    (Directive::Pragma, "pragma"),
    (Directive::Alias, "alias"),
    (Directive::Entry, "entry"),
    (Directive::Func, "func"),
    (Directive::Linkage, "extern visible weak common"),
    (Directive::Space(S::Global), "global"),
    (Directive::Space(S::Const), "const"),
    (Directive::Space(S::Shared), "shared"),
    (Directive::Space(S::Local), "local"),
    (Directive::Space(S::Param), "param"),
    (Directive::Space(S::Reg), "reg"),
    (Directive::Space(S::Tex), "tex"),
    (
        Directive::LaunchBound(0),
        "explicitcluster blocksareclusters",
    ),
    (
        Directive::LaunchBound(1),
        "minnctapersm maxnctapersm maxnreg maxclusterrank",
    ),
    (
        Directive::LaunchBound(3),
        "maxntid reqntid reqnctapercluster",
    ),
    (Directive::FunctionBound(0), "noreturn"),
    (
        Directive::FunctionBound(1),
        "abi_preserve abi_preserve_control",
    ),
    (Directive::Performance(0), "unified"),
    (Directive::Attribute, "attribute"),
    (Directive::Align, "align"),
    (Directive::Ptr, "ptr"),
    (Directive::BranchTargets, "branchtargets"),
    (Directive::CallTargets, "calltargets"),
    (Directive::CallPrototype, "callprototype"),
];

/// Returns the name of a special register, without `%` and without its axis.
pub(crate) fn special_word(register: R) -> String {
    match register {
        R::Pm(n @ 8..) => return format!("pm{}_64", n - 8),
        R::Pm(n) => return format!("pm{n}"),
        R::Envreg(n) => return format!("envreg{n}"),
        R::WarpSize => return "warpsize".to_owned(),
        _ => {}
    }
    let same = |known: R| match (known, register) {
        // Which of the reserved ones it is, is part of the name; the others' numbers are axes.
        (R::ReservedSmem(a), R::ReservedSmem(b)) => a == b,
        _ => std::mem::discriminant(&known) == std::mem::discriminant(&register),
    };
    let found = SPECIALS.iter().find(|(known, _)| same(*known));
    let words = found.map_or("tid", |(_, words)| words);
    words.split(' ').next().unwrap_or(words).to_owned()
}

/// Special registers with the names of each, without `%`; those that are numbered are added to them.
#[rustfmt::skip]
static SPECIALS: &[(R, &str)] = &[
    (R::Tid(0), "tid"), (R::Ntid(0), "ntid"), (R::Ctaid(0), "ctaid"), (R::Nctaid(0), "nctaid"),
    (R::Laneid, "laneid"), (R::Warpid, "warpid"), (R::Nwarpid, "nwarpid"),
    (R::Smid, "smid"), (R::Nsmid, "nsmid"), (R::Gridid, "gridid"),
    (R::LanemaskEq, "lanemask_eq"), (R::LanemaskLe, "lanemask_le"), (R::LanemaskLt, "lanemask_lt"),
    (R::LanemaskGe, "lanemask_ge"), (R::LanemaskGt, "lanemask_gt"),
    (R::Clock, "clock"), (R::ClockHi, "clock_hi"), (R::Clock64, "clock64"),
    (R::Globaltimer, "globaltimer"), (R::GlobaltimerLo, "globaltimer_lo"), (R::GlobaltimerHi, "globaltimer_hi"),
    (R::DynamicSmemSize, "dynamic_smem_size"), (R::TotalSmemSize, "total_smem_size"),
    (R::AggrSmemSize, "aggr_smem_size"),
    (R::ReservedSmem(0), "reserved_smem_offset_begin"), (R::ReservedSmem(1), "reserved_smem_offset_end"),
    (R::ReservedSmem(2), "reserved_smem_offset_cap"), (R::ReservedSmem(3), "reserved_smem_offset_0"),
    (R::ReservedSmem(4), "reserved_smem_offset_1"),
    (R::Clusterid(0), "clusterid"), (R::Nclusterid(0), "nclusterid"),
    (R::ClusterCtaid(0), "cluster_ctaid"), (R::ClusterNctaid(0), "cluster_nctaid"),
    (R::ClusterCtarank, "cluster_ctarank"), (R::ClusterNctarank, "cluster_nctarank"),
    (R::IsExplicitCluster, "is_explicit_cluster"), (R::CurrentGraphExec, "current_graph_exec"),
];
