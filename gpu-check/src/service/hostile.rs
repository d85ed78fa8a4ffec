//! A hostile client: a kernel that reads and writes at distances from its own memory where other tenants may have
//! theirs. It must end as any kernel, and change nobody's results.

use super::job::Report;
use crate::cuda::{Function, Session, Shape};

/// Stores and adds at `own + (block - blocks / 2) * step`, by global and by generic addresses.
const TEXT: &str = "\
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 mine[4];
.visible .entry hostile(.param .u64 own, .param .u64 step)
{
.reg .b64 %rd<8>;
.reg .b32 %r<6>;
ld.param.u64 %rd1, [own];
ld.param.u64 %rd2, [step];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %nctaid.x;
shr.u32 %r2, %r2, 1;
sub.u32 %r1, %r1, %r2;
cvt.s64.s32 %rd3, %r1;
mad.lo.s64 %rd4, %rd3, %rd2, %rd1;
mov.u32 %r3, %tid.x;
mul.wide.u32 %rd5, %r3, 4;
add.s64 %rd4, %rd4, %rd5;
mov.u32 %r4, 0xdeadbeef;
st.global.u32 [%rd4], %r4;
ld.u32 %r5, [%rd4];
st.u32 [%rd4+65536], %r5;
red.global.add.u32 [%rd4], %r4;
mov.u64 %rd6, mine;
add.s64 %rd6, %rd6, %rd3;
mad.lo.s64 %rd6, %rd3, %rd2, %rd6;
st.global.u32 [%rd6], %r4;
ret;
}
";

/// Blocks of a launch, half of them at each side of its own memory.
const BLOCKS: u32 = 128;
/// Distances between what two blocks touch: windows of 4 GiB, pages, and what lies close by.
const STEPS: [u64; 4] = [4 << 30, 1 << 31, 2 << 20, 256];

/// The hostile work, set up.
#[derive(Debug)]
pub(super) struct Hostile<'a> {
    cuda: &'a Session,
    function: Function,
    own: u64,
    stream: u64,
    launches: u32,
}

impl<'a> Hostile<'a> {
    /// Loads the kernel and allocates its memory; nothing of that is an operation of the device.
    pub(super) fn new(cuda: &'a Session, launches: u32) -> anyhow::Result<Self> {
        let module = cuda.load(TEXT)?;
        Ok(Self {
            function: cuda.function(&module, "hostile")?,
            own: cuda.alloc(1 << 20)?,
            stream: cuda.stream(0)?,
            cuda,
            launches,
        })
    }

    /// Launches it with one distance after another, and waits for all.
    pub(super) fn run(&self) -> anyhow::Result<Report> {
        let shape = Shape {
            grid: [BLOCKS, 1, 1],
            block: [64, 1, 1],
            shared_bytes: 0,
        };
        for step in STEPS.iter().cycle().take(self.launches as usize) {
            let words = [self.own, *step];
            self.cuda
                .launch_words(&self.function, shape, self.stream, &words)?;
        }
        self.cuda.wait(self.stream)?;
        Ok(Report {
            launches: self.launches.into(),
            verified: true,
            ..Report::default()
        })
    }
}
