//! A workload set up on a connection: launched any number of times, each result judged by the host reference.

use crate::service::{Service, connect};
use gridmux_channel::ring::CompletionStatus;
use gridmux_tenant::{Args, Buffer, ClientError, Gpu, Kernel, Stream};
use gridmux_testkit::until;
use gridmux_workloads::{Arg, Case, Role, Size, by_name};

/// Connects as a tenant, once there is a place for it, and runs a small workload.
///
/// # Panics
/// If it fails or its result is wrong.
pub fn run_once(service: &Service, tenant: &str) {
    let gpu = until("a place", || connect(&service.socket(), tenant).ok());
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).expect("the workload is set up");
    bench.run(&gpu).expect("the workload runs");
}

/// Launches one block of a kernel that fails; returns the error.
///
/// # Panics
/// If it ends well, or with another status than `due`.
pub fn failure(
    gpu: &Gpu,
    kernel: &Kernel,
    threads: u32,
    args: &Args,
    due: CompletionStatus,
) -> ClientError {
    let stream = gpu.stream().expect("a stream");
    let event = stream.launch(kernel, 1, threads, 0, args);
    let error = event.expect("it is launched").wait();
    let error = error.expect_err("the launch fails");
    assert_eq!(error.status(), Some(due), "{error:?}");
    error
}

/// A case with its buffers on the device.
#[derive(Debug)]
pub struct Bench {
    case: Case,
    /// Its kernel.
    pub kernel: Kernel,
    /// Its stream.
    pub stream: Stream,
    /// Buffers in the order of the arguments, with what the kernel does to them and their first contents.
    buffers: Vec<(Buffer, Role, Vec<u8>)>,
    args: Args,
}

impl Bench {
    /// Loads a workload and copies its inputs to the device.
    ///
    /// # Errors
    /// The client's.
    ///
    /// # Panics
    /// If there is no such workload.
    pub fn set_up(gpu: &Gpu, workload: &str, size: Size, seed: u64) -> Result<Self, ClientError> {
        let case = by_name(workload)
            .expect("a workload of that name")
            .case(size, seed);
        let kernel = gpu.module(case.ptx.as_bytes())?.kernel(case.entry)?;
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
                    let buffer = gpu.alloc(bytes.len() as u64)?;
                    let with = args.buffer(&buffer);
                    buffers.push((buffer, *role, bytes.clone()));
                    with
                }
            };
        }
        let bench = Self {
            case,
            kernel,
            stream,
            buffers,
            args,
        };
        bench.restore()?;
        bench.stream.synchronize()?;
        gpu.think();
        Ok(bench)
    }

    /// Launches once and judges the result.
    ///
    /// # Errors
    /// The client's.
    ///
    /// # Panics
    /// If the result is wrong.
    pub fn run(&self, gpu: &Gpu) -> Result<(), ClientError> {
        self.restore()?;
        let Case {
            grid,
            block,
            dynamic_shared_bytes,
            ..
        } = self.case;
        self.stream
            .launch(&self.kernel, grid, block, dynamic_shared_bytes, &self.args)?
            .wait()?;
        let mut outputs = Vec::new();
        for (buffer, _, bytes) in self.written() {
            let mut output = vec![0; bytes.len()];
            self.stream.copy_from(buffer, 0, &mut output)?;
            outputs.push(output);
        }
        // No clock has to wait for the host's own arithmetic.
        gpu.think();
        if let Err(mismatch) = self.case.verify(&outputs) {
            panic!("{}: {mismatch}", self.case.workload);
        }
        Ok(())
    }

    /// Returns its buffers, in the order of the arguments.
    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().map(|(buffer, ..)| buffer)
    }

    /// Returns the launch that it makes.
    #[must_use]
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// Returns the arguments of that launch.
    #[must_use]
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// Gives every buffer its first contents, so that no launch profits from an earlier one.
    fn restore(&self) -> Result<(), ClientError> {
        for (buffer, _, bytes) in &self.buffers {
            self.stream.copy_to(buffer, 0, bytes)?;
        }
        Ok(())
    }

    fn written(&self) -> impl Iterator<Item = &(Buffer, Role, Vec<u8>)> {
        self.buffers.iter().filter(|(_, role, _)| *role != Role::In)
    }
}
