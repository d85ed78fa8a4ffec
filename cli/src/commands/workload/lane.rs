//! One stream of a workload with its own buffers: at most one launch in flight.

use gridmux_tenant::{Args, Buffer, ClientError, Event, Gpu, Kernel, Stream, Timing};
use gridmux_workloads::{Arg, Case, Role};

/// A stream, and what its launches work on.
pub(super) struct Lane<'a> {
    // Fields are dropped in order: an event and a stream go before the buffers that their launches use.
    event: Option<Event>,
    stream: Stream,
    buffers: Vec<CaseBuffer<'a>>,
    args: Args,
    kernel: Kernel,
    case: &'a Case,
    is_fresh: bool,
    /// The end of the newest launch, device time.
    pub(super) last_end_ns: Option<u64>,
}

struct CaseBuffer<'a> {
    device: Buffer,
    initial: &'a [u8],
    role: Role,
}

impl<'a> Lane<'a> {
    /// Allocates the buffers, copies their contents in, and waits for that.
    pub(super) fn set_up(gpu: &Gpu, kernel: &Kernel, case: &'a Case) -> Result<Self, ClientError> {
        let stream = gpu.stream()?;
        let mut buffers = Vec::new();
        let mut args = Args::new();
        for arg in &case.args {
            args = match arg {
                Arg::U32(value) => args.u32(*value),
                Arg::S32(value) => args.i32(*value),
                Arg::U64(value) => args.u64(*value),
                Arg::F32(value) => args.f32(*value),
                Arg::F64(value) => args.f64(*value),
                Arg::Buffer { bytes, role } => {
                    let device = gpu.alloc(bytes.len() as u64)?;
                    stream.copy_to(&device, 0, bytes)?;
                    let with = args.buffer(&device);
                    buffers.push(CaseBuffer {
                        device,
                        initial: bytes,
                        role: *role,
                    });
                    with
                }
            };
        }
        stream.synchronize()?;
        let kernel = kernel.clone();
        Ok(Self {
            event: None,
            stream,
            buffers,
            args,
            kernel,
            case,
            is_fresh: true,
            last_end_ns: None,
        })
    }

    /// Returns whether a launch is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.event.is_some()
    }

    /// Submits a launch. A buffer that the kernel reads and writes gets its first contents again, so that every
    /// launch computes the same.
    pub(super) fn submit(&mut self) -> Result<(), ClientError> {
        if !std::mem::take(&mut self.is_fresh) {
            for buffer in self
                .buffers
                .iter()
                .filter(|buffer| buffer.role == Role::InOut)
            {
                self.stream.copy_to(&buffer.device, 0, buffer.initial)?;
            }
        }
        let case = self.case;
        let shared = case.dynamic_shared_bytes;
        self.event =
            Some(
                self.stream
                    .launch(&self.kernel, case.grid, case.block, shared, &self.args)?,
            );
        Ok(())
    }

    /// Returns the launch's times, if it has ended.
    pub(super) fn take_ended(&mut self) -> Result<Option<Timing>, ClientError> {
        let Some(event) = &self.event else {
            return Ok(None);
        };
        if !event.is_done()? {
            return Ok(None);
        }
        let timing = event.wait()?;
        self.event = None;
        Ok(Some(timing))
    }

    /// Returns what the newest launch left in the buffers that the kernel writes.
    pub(super) fn read_outputs(&self) -> Result<Vec<Vec<u8>>, ClientError> {
        let written = self.buffers.iter().filter(|buffer| buffer.role != Role::In);
        let outputs = written.map(|buffer| {
            let mut bytes = vec![0; buffer.initial.len()];
            self.stream.copy_from(&buffer.device, 0, &mut bytes)?;
            Ok(bytes)
        });
        let outputs = outputs.collect();
        self.stream.synchronize()?;
        outputs
    }
}
