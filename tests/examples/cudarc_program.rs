//! A CUDA program in Rust, written against cudarc and nothing of gridmux:
//! `gridmux run -- target/debug/examples/cudarc_program`.

use cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::process::ExitCode;

const PTX: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry multiply_add(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n) {
    .reg .pred %p<2>; .reg .f32 %f<5>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1; @%p1 bra DONE;
    cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r5, 4; add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%rd7], %f4;
DONE: ret;
}";

const COUNT: u32 = 20_000;

fn main() -> ExitCode {
    match several_threads() {
        Ok(()) => {
            println!("{COUNT} values right on each of four threads");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs four threads, each with a stream of its own, in one context.
fn several_threads() -> Result<(), String> {
    let context = CudaContext::new(0).map_err(shown("no context"))?;
    let name = context.name().map_err(shown("no name"))?;
    println!(
        "{name}: {} devices",
        CudaContext::device_count().map_err(shown("no count"))?
    );
    let results = std::thread::scope(|scope| {
        let start = |number: u16| {
            let context = context.clone();
            scope.spawn(move || work(&context, f32::from(number)))
        };
        let threads: Vec<_> = (1..=4).map(start).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.collect::<Vec<_>>()
    });
    for result in results {
        result.map_err(|_| "a thread panicked".to_owned())??;
    }
    Ok(())
}

fn work(context: &std::sync::Arc<CudaContext>, factor: f32) -> Result<(), String> {
    let run = || -> Result<(Vec<f32>, f32), DriverError> {
        context.bind_to_thread()?;
        let stream = context.new_stream()?;
        let function = context
            .load_module(Ptx::from_src(PTX))?
            .load_function("multiply_add")?;
        let x: Vec<f32> = (0..u16::MAX)
            .cycle()
            .map(f32::from)
            .take(COUNT as usize)
            .collect();
        let on_device = stream.clone_htod(&x)?;
        let mut y = stream.alloc_zeros::<f32>(COUNT as usize)?;
        let start = stream.record_event(Some(CU_EVENT_DEFAULT))?;
        for _ in 0..3 {
            let mut launch = stream.launch_builder(&function);
            launch.arg(&on_device).arg(&mut y).arg(&factor).arg(&COUNT);
            // SAFETY: the kernel's four parameters are these, and it stays below COUNT.
            unsafe { launch.launch(LaunchConfig::for_num_elems(COUNT)) }?;
        }
        let end = stream.record_event(Some(CU_EVENT_DEFAULT))?;
        let y = stream.clone_dtoh(&y)?;
        stream.synchronize()?;
        Ok((y, start.elapsed_ms(&end)?))
    };
    let (y, milliseconds) = run().map_err(shown("the device"))?;
    let expected = (0..u16::MAX).cycle().map(|i| 3.0 * factor * f32::from(i));
    if let Some((value, wanted)) = y
        .iter()
        .zip(expected)
        .find(|(value, wanted)| **value != *wanted)
    {
        return Err(format!("{value} instead of {wanted}"));
    }
    if milliseconds > 0.0 {
        Ok(())
    } else {
        Err(format!("three launches took {milliseconds} ms"))
    }
}

fn shown(what: &'static str) -> impl Fn(DriverError) -> String {
    move |error| format!("{what}: {error:?}")
}
