//! What a validation file says: a card, a source, and figures, each with what was run.
//!
//! `hw-model/validation/README.md` documents every key; this is the same as types.
//! Rule: a kernel has the units that its measurement gives, and no others.

use gridmux_hw_model::GpuConfig;
use gridmux_workloads::microbench::ops::Op;
use serde::Deserialize;
use std::fmt;

/// Makes an enum whose variants have names in files: a list of all of them, and the name of each.
macro_rules! named {
    ($(#[$attribute:meta])* $type:ident { $($(#[$note:meta])* $variant:ident $name:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        pub enum $type {
            $(
                $(#[$note])*
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl $type {
            /// Every one, in the order in which they are declared.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name, as files have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named! {
    /// The class that a figure is counted under, in the order of the summary.
    Class {
        /// One short block at a time per SM.
        BlockTurnover "block-turnover",
        /// Bandwidth by occupancy of kernels that load.
        OccupancyLoads "occupancy-loads",
        /// Bandwidth by occupancy of kernels that only store.
        OccupancyStores "occupancy-stores",
        /// Block starts over the whole chip.
        BlockRate "block-rate",
        /// Kernel launches.
        Launch "launch",
        /// Which of two kernels gets room that comes free.
        Priority "priority",
        /// Latencies of memories and instructions.
        Latency "latency",
        /// Rates of pipelines, caches and memories.
        Throughput "throughput",
        /// Atomic operations and barriers.
        Synchronisation "synchronisation",
        /// Matrix units.
        Matrix "matrix",
        /// Matrix products, step by step better.
        Sgemm "sgemm",
        /// Whole kernels, from submission to end.
        Kernels "kernels",
    }
}

named! {
    /// Unit of a figure.
    Unit {
        /// Core cycles of one access, instruction or launch.
        Cycles "cycles",
        /// Bytes a core cycle of one SM.
        BytesPerCycleAndSm "B/clk/SM",
        /// Bytes a core cycle of the whole chip.
        BytesPerCycle "B/clk",
        /// 10⁹ bytes a second of the whole chip.
        GigabytesPerSecond "GB/s",
        /// Thread operations a core cycle of one SM.
        LanesPerCycleAndSm "lanes/clk/SM",
        /// Floating-point operations a core cycle of one SM; a multiply-add counts as two.
        FlopsPerCycleAndSm "FLOP/clk/SM",
        /// Multiply-adds a core cycle of one SM.
        FmasPerCycleAndSm "FMA/clk/SM",
        /// 10⁹ floating-point operations a second of the whole chip.
        GigaflopsPerSecond "GFLOP/s",
        /// 10¹² operations a second of the whole chip.
        TeraflopsPerSecond "TFLOP/s",
        /// Microseconds of one launch.
        Microseconds "us",
        /// One time over another.
        Ratio "ratio",
    }
}

impl Unit {
    /// Returns whether more of it is better.
    pub const fn higher_is_better(self) -> bool {
        !matches!(self, Self::Cycles | Self::Microseconds | Self::Ratio)
    }

    /// Returns whether it counts what an instruction computes: [`Op::flops`].
    const fn counts_flops(self) -> bool {
        matches!(
            self,
            Self::FlopsPerCycleAndSm
                | Self::FmasPerCycleAndSm
                | Self::GigaflopsPerSecond
                | Self::TeraflopsPerSecond
        )
    }
}

/// The relation of the published value to the card's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The card has this value.
    #[default]
    Exact,
    /// The card has this value or more.
    AtLeast,
    /// The card has this value or less.
    AtMost,
}

/// A space of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// Global memory.
    Global,
    /// Shared memory.
    Shared,
}

/// The operation of a streaming kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamOp {
    /// One store.
    Store,
    /// One load.
    Read,
    /// One load and one store.
    Scale,
    /// Three loads and one store.
    Triad,
}

/// Element of a strided access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Element {
    /// Four bytes.
    F32,
    /// Eight bytes.
    F64,
}

/// A way to multiply matrices, each better than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SgemmStep {
    /// Lanes read rows that lie apart.
    Naive,
    /// Lanes read neighbouring columns.
    Coalesced,
    /// Tiles in shared memory.
    Tiled,
    /// A column of results a thread.
    Columns,
    /// A square of results a thread.
    Squares,
    /// The same with accesses of four floats.
    Vectors,
}

named! {
    /// A kernel of `hw-model/validation/kernels/whole.cu`, by the name of its entry.
    WholeKernel {
        /// Sum of two pictures; lanes side by side.
        AddAlongRows "add_along_rows",
        /// The same; neighbouring lanes a row apart.
        AddAlongColumns "add_along_columns",
        /// Convolution of an array.
        Line "line",
        /// The same with elements in shared memory.
        LineTiled "line_tiled",
        /// The same with the block's own elements there.
        LineCached "line_cached",
        /// Convolution of a picture.
        Picture "picture",
        /// The same with a tile in shared memory.
        PictureTiled "picture_tiled",
        /// Histogram in global memory.
        Histogram "histogram",
        /// One for each block in shared memory, added up.
        HistogramShared "histogram_shared",
        /// Grey picture of a coloured one.
        Grey "grey",
        /// Product of integer matrices.
        Product "product",
        /// The same with tiles in shared memory.
        ProductTiled "product_tiled",
        /// The same with two results a thread.
        ProductWide "product_wide",
        /// Product of a matrix and a vector, a row a thread.
        RowsByVector "rows_by_vector",
        /// The same with the vector in shared memory.
        RowsBySharedVector "rows_by_shared_vector",
        /// Sum of an array, lanes that work apart.
        Reduce1 "reduce_1",
        /// Lanes that work side by side.
        Reduce2 "reduce_2",
        /// Their words side by side, too.
        Reduce3 "reduce_3",
        /// Two loads a thread.
        Reduce4 "reduce_4",
        /// The last warp without barriers.
        Reduce5 "reduce_5",
        /// Every step written out.
        Reduce6 "reduce_6",
        /// Blocks that go on through the array.
        Reduce7 "reduce_7",
    }
}

impl WholeKernel {
    /// Returns whether its size is that of a side, of a picture or of matrices.
    pub const fn has_two_sides(self) -> bool {
        matches!(
            self,
            Self::AddAlongRows
                | Self::AddAlongColumns
                | Self::Picture
                | Self::PictureTiled
                | Self::Grey
                | Self::Product
                | Self::ProductTiled
                | Self::ProductWide
        )
    }

    /// Returns whether its work is shared by all SMs, and not by a few, nor is done at one word of memory.
    pub const fn fills_a_chip(self) -> bool {
        !matches!(
            self,
            Self::Histogram | Self::RowsByVector | Self::RowsBySharedVector
        )
    }
}

/// The way in which launches are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submit {
    /// One by one.
    #[default]
    Stream,
    /// As the nodes of one graph.
    Graph,
}

/// A run: a kernel and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "kernel", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Run {
    /// One lane follows a random ring of pointers, one in each 128-byte line of a buffer.
    Chase {
        /// Size of the buffer.
        footprint_kb: u64,
    },
    /// One lane follows a pointer in shared memory.
    SharedChase {
        /// Whether the loaded word is an index, of which one multiply-add makes the next address.
        #[serde(default)]
        indexed: bool,
    },
    /// One warp executes a chain of dependent instructions.
    Chain {
        /// Instruction.
        op: Op,
    },
    /// A full SM executes independent instructions.
    Throughput {
        /// Instruction.
        op: Op,
    },
    /// A stream over memory much larger than the L2.
    Stream {
        /// The operation.
        op: StreamOp,
        /// Threads of a block.
        block: u32,
        /// Blocks that shared memory leaves room for.
        blocks_per_sm: u32,
    },
    /// All blocks read the same data again and again, each a part of it: the L2's bandwidth.
    Sweep {
        /// Size of the data.
        footprint_kb: u64,
    },
    /// One block reads a buffer again and again: the L1's bandwidth.
    L1Read {
        /// Size of the buffer.
        footprint_kb: u64,
    },
    /// Neighbouring lanes read `stride` elements apart, from L1.
    L1Stride {
        /// Type of an element.
        element: Element,
        /// Elements.
        stride: u32,
    },
    /// A full SM reads shared memory without conflicts.
    SharedRead {},
    /// One lane's atomic additions, each to the address that the one before returned.
    AtomicChase {},
    /// One warp's atomic additions of which nobody uses the result; `lanes` lanes meet at one address.
    Atomics {
        /// The space of the words.
        space: Space,
        /// Lanes that meet; the others have a word each.
        lanes: u32,
    },
    /// Barriers of one block, one after another.
    Barrier {
        /// Warps of the block.
        warps: u32,
    },
    /// Launches of `scale`, one behind another in each of a number of queues.
    Launches {
        /// Elements of a launch.
        elements: u64,
        /// Threads of a block.
        block: u32,
        /// Queues.
        #[serde(default = "one")]
        queues: u8,
        /// The way in which they are handed over.
        #[serde(default)]
        submit: Submit,
    },
    /// A launch of a kernel that does nothing, from submission to end.
    EmptyLaunch {},
    /// A kernel on another queue, beside one of 20 waves of blocks, each with an SM to itself: where its first block's
    /// start lies, as a part of the time between the first and the last start of the other one's blocks.
    Newcomer {
        /// Its queue is of the highest level; else of the same.
        highest: bool,
    },
    /// A product of single-precision matrices.
    Sgemm {
        /// The algorithm.
        step: SgemmStep,
    },
    /// One launch of a whole kernel with cold caches.
    Whole {
        /// The kernel.
        entry: WholeKernel,
        /// Elements, or those of a side.
        size: u64,
    },
    /// A read right after the end of a writer to other memory, over the same read alone.
    ReadAfterWrite {
        /// The size of the data that is written, in 10⁶ bytes.
        write_mb: u64,
        /// The size of the data that is read, in 10⁶ bytes.
        read_mb: u64,
    },
}

fn one() -> u8 {
    1
}

impl Run {
    /// Returns the kernel's name and the units that it has values in.
    pub const fn kernel(&self) -> (&'static str, &'static [Unit]) {
        use Unit::{
            BytesPerCycle, BytesPerCycleAndSm, Cycles, FlopsPerCycleAndSm, FmasPerCycleAndSm,
            GigabytesPerSecond, GigaflopsPerSecond, LanesPerCycleAndSm, Microseconds, Ratio,
            TeraflopsPerSecond,
        };
        const BANDWIDTH: &[Unit] = &[GigabytesPerSecond, BytesPerCycle, BytesPerCycleAndSm];
        const TIME: &[Unit] = &[Cycles];
        const RATE: &[Unit] = &[
            LanesPerCycleAndSm,
            FlopsPerCycleAndSm,
            FmasPerCycleAndSm,
            GigaflopsPerSecond,
            TeraflopsPerSecond,
        ];
        match self {
            Self::Chase { .. } => ("chase", TIME),
            Self::SharedChase { .. } => ("shared-chase", TIME),
            Self::Chain { .. } => ("chain", TIME),
            Self::Throughput { .. } => ("throughput", RATE),
            Self::Stream { .. } => ("stream", BANDWIDTH),
            Self::Sweep { .. } => ("sweep", BANDWIDTH),
            Self::L1Read { .. } => ("l1-read", BANDWIDTH),
            Self::L1Stride { .. } => ("l1-stride", &[Cycles, BytesPerCycleAndSm]),
            Self::SharedRead {} => ("shared-read", BANDWIDTH),
            Self::AtomicChase {} => ("atomic-chase", TIME),
            Self::Atomics { .. } => ("atomics", TIME),
            Self::Barrier { .. } => ("barrier", TIME),
            Self::Launches { .. } => ("launches", &[GigabytesPerSecond, Microseconds, Cycles]),
            Self::EmptyLaunch {} => ("empty-launch", &[Cycles, Microseconds]),
            Self::Newcomer { .. } => ("newcomer", &[Ratio]),
            Self::Sgemm { .. } => ("sgemm", &[GigaflopsPerSecond, TeraflopsPerSecond]),
            Self::Whole { .. } => ("whole", &[Microseconds]),
            Self::ReadAfterWrite { .. } => ("read-after-write", &[Ratio]),
        }
    }

    /// Says what is wrong with a parameter of a figure in that unit, if something is.
    pub fn complaint(&self, unit: Unit) -> Option<String> {
        let positive = |name: &str, value: u64| {
            (value == 0).then(|| format!("{name} = 0 makes no sense: it must be at least 1"))
        };
        let between = |name: &str, value: u32, most: u32| {
            (!(1..=most).contains(&value))
                .then(|| format!("{name} = {value}: it must lie between 1 and {most}"))
        };
        match *self {
            Self::Chase { footprint_kb } | Self::Sweep { footprint_kb } => {
                positive("footprint_kb", footprint_kb)
            }
            Self::Throughput { op } if unit.counts_flops() && op.flops() == 0 => Some(format!(
                "op = '{}': nothing is known of its operations in {unit}",
                op.name()
            )),
            Self::L1Stride { stride, .. } => between("stride", stride, 4096),
            Self::L1Read { footprint_kb } => (!footprint_kb.is_multiple_of(4) || footprint_kb == 0)
                .then(|| format!("footprint_kb = {footprint_kb}: it must be a multiple of 4")),
            Self::Stream {
                block,
                blocks_per_sm,
                ..
            } => between("block", block, 1024)
                .or_else(|| between("blocks_per_sm", blocks_per_sm, 32)),
            Self::Atomics { lanes, .. } => between("lanes", lanes, 32),
            Self::Whole { size, .. } => positive("size", size),
            Self::Barrier { warps } => between("warps", warps, 32),
            Self::Launches {
                elements,
                block,
                queues,
                ..
            } => positive("elements", elements)
                .or_else(|| between("block", block, 1024))
                .or_else(|| between("queues", queues.into(), 32)),
            Self::ReadAfterWrite { write_mb, read_mb } => {
                positive("write_mb", write_mb).or_else(|| positive("read_mb", read_mb))
            }
            _ => None,
        }
    }
}

/// The publication that the figures of a file are from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Title, authors, year.
    pub title: String,
    /// Address under which it can be opened.
    pub url: String,
    /// A note on the method, which a reader must know.
    #[serde(default)]
    pub note: Option<String>,
}

/// The card of a file.
#[derive(Debug, Clone)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its description.
    pub config: GpuConfig,
    /// Keys that it sets without a source that can be opened.
    pub estimates: Vec<String>,
    /// SMs of the part of the chip on which long bandwidth kernels run, for speed; what they reach is scaled up.
    pub slice_sms: u16,
}

/// One measured value.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Name, unique in its file.
    pub name: String,
    /// Class.
    pub class: Class,
    /// Unit.
    pub unit: Unit,
    /// The measured value.
    pub value: f64,
    /// The relation of the value to the card's.
    pub bound: Bound,
    /// The position in the source.
    pub at: String,
    /// The run that it was measured of.
    pub run: Run,
    /// Name of the curve that it is a point of, the parameter that varies, and its value.
    pub point: Option<(String, String, i64)>,
}

/// A validation file.
#[derive(Debug, Clone)]
pub struct Measurements {
    /// Name of the file, without its ending.
    pub file: String,
    /// Source.
    pub source: Source,
    /// Card.
    pub card: Card,
    /// Figures, points of curves included.
    pub figures: Vec<Figure>,
}
