//! The runtime library on graphs, arrays and textures, through resets of the device, and at the ends of threads and of
//! forked children.

use crate::forks::in_child;
use crate::runtime::{Functions, ONE, Program, register, register_text, shadow, stub};
use crate::session::{code, ok, refused};
use std::cell::Cell;
use std::ptr::{from_mut, from_ref};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;

scenarios! {
    runtime: captured_kernels_are_told_by_their_stubs rows_are_not_copied_during_a_capture
        directions_of_copies_with_arrays a_binary_that_does_not_load_says_why
        a_reset_begins_variables_anew_and_ends_errors_of_all_threads textures_in_the_words_of_both_versions
        a_launch_at_the_end_of_a_thread children_end_while_their_parent_registers;
}

const TO_DEVICE: i32 = 1;
const ON_DEVICE: usize = 3;
const INVALID_DIRECTION: u32 = 21;
const UNLOADING: u32 = 4;

/// Returns the address of a value as an argument.
fn at<T>(value: &mut T) -> usize {
    from_mut(value).expose_provenance()
}

fn bits(handle: u64) -> usize {
    usize::try_from(handle).expect("as wide as a pointer")
}

fn begin(program: &Program) -> usize {
    let mut stream = 0;
    ok(program.cudaStreamCreate(&mut stream));
    let stream = bits(stream);
    ok(program.call_with("cudaStreamBeginCapture", &[stream, 0]));
    stream
}

fn captured_kernels_are_told_by_their_stubs() {
    let program = Program::start();
    let mut out = program.alloc(16);
    let stream = begin(&program);
    let mut arguments = [from_mut(&mut out).cast()];
    ok(program.cudaLaunchKernel(stub(0), ONE, ONE, arguments.as_mut_ptr(), 0, stream as u64));
    let (mut graph, mut node, mut count) = (0_usize, 0_usize, 1_usize);
    ok(program.call_with("cudaStreamEndCapture", &[stream, at(&mut graph)]));
    ok(program.call_with("cudaGraphGetNodes", &[graph, at(&mut node), at(&mut count)]));
    assert_eq!(count, 1);
    // `cudaKernelNodeParams` and `cudaGraphNodeParams`.
    let (mut params, mut any) = ([0_usize; 7], [0_usize; 32]);
    ok(program.call_with("cudaGraphKernelNodeGetParams", &[node, at(&mut params)]));
    assert_eq!(params[0], stub(0).addr());
    ok(program.call_with("cudaGraphKernelNodeSetParams", &[node, at(&mut params)]));
    ok(program.call_with("cudaGraphNodeGetParams", &[node, at(&mut any)]));
    assert_eq!((any[0], any[2]), (0, stub(0).addr()));
    ok(program.call_with("cudaGraphNodeSetParams", &[node, at(&mut any)]));
    let mut executable = 0_usize;
    ok(program.call_with("cudaGraphInstantiate", &[at(&mut executable), graph, 0]));
    ok(program.call_with("cudaGraphLaunch", &[executable, stream]));
    ok(program.cudaStreamSynchronize(stream as u64));
    assert_eq!(program.read(out), [40]);
}

/// A copy that waits is refused before it is executed, and not after.
fn rows_are_not_copied_during_a_capture() {
    let program = Program::start();
    let memory = bits(program.alloc(64));
    let mut format = [32_i32, 0, 0, 0, 2];
    let mut array = 0_usize;
    ok(program.call_with(
        "cudaMallocArray",
        &[at(&mut array), at(&mut format), 4, 1, 0],
    ));
    let mut own = [9_u32; 4];
    let from = at(&mut own);
    ok(program.call_with("cudaMemset", &[memory, 1, 64]));
    ok(program.call_with(
        "cudaMemcpy2DToArray",
        &[array, 0, 0, memory, 16, 16, 1, ON_DEVICE],
    ));
    // `cudaMemcpy3DParms`: an array, a place and rows for either end, the extent and the kind.
    let mut spatial = [0_usize; 20];
    spatial[4..8].copy_from_slice(&[from, 16, 16, 1]);
    spatial[12..16].copy_from_slice(&[memory, 16, 16, 1]);
    spatial[16..20].copy_from_slice(&[16, 1, 1, 1]);
    let spatial = at(&mut spatial);
    let copies: [(&str, &[usize]); 6] = [
        ("cudaMemcpy2D", &[memory, 16, from, 16, 16, 1, 1]),
        ("cudaMemcpy2D_ptds", &[memory, 16, from, 16, 16, 1, 1]),
        ("cudaMemcpy3D", &[spatial]),
        ("cudaMemcpy2DToArray", &[array, 0, 0, from, 16, 16, 1, 1]),
        ("cudaMemcpyToArray", &[array, 0, 0, from, 16, 1]),
        (
            "cudaMemcpy2DFromArray",
            &[memory, 16, array, 0, 0, 16, 1, ON_DEVICE],
        ),
    ];
    for (name, arguments) in copies {
        let (stream, mut graph) = (begin(&program), 1_usize);
        let refusal = program.call_with(name, arguments);
        let is_of_capture = (code::CAPTURE_UNSUPPORTED..=code::CAPTURE_IMPLICIT).contains(&refusal);
        assert!(is_of_capture, "{name} returned {refusal}");
        refused(
            program.call_with("cudaStreamEndCapture", &[stream, at(&mut graph)]),
            code::CAPTURE_INVALIDATED,
        );
        assert_eq!(program.read(memory as u64), [0x0101_0101_u32; 4], "{name}");
        let mut back = [0_u32; 4];
        let to = at(&mut back);
        ok(program.call_with("cudaMemcpy2DFromArray", &[to, 16, array, 0, 0, 16, 1, 2]));
        assert_eq!(back, [0x0101_0101; 4], "{name}");
        // Without a capture it is executed.
        let own = at(&mut own);
        assert_eq!(own, from);
        ok(program.call_with(name, arguments));
        ok(program.cudaDeviceSynchronize());
        ok(program.call_with("cudaMemset", &[memory, 1, 64]));
        ok(program.call_with(
            "cudaMemcpy2DToArray",
            &[array, 0, 0, memory, 16, 16, 1, ON_DEVICE],
        ));
    }
}

fn directions_of_copies_with_arrays() {
    let program = Program::start();
    let memory = bits(program.alloc(64));
    let mut format = [32_i32, 0, 0, 0, 2];
    let (mut array, mut other, mut own) = (0_usize, 0_usize, [7_u32; 4]);
    for array in [&mut array, &mut other] {
        ok(program.call_with("cudaMallocArray", &[at(array), at(&mut format), 4, 1, 0]));
    }
    let host = at(&mut own);
    for kind in 0..=5 {
        let due = |allowed: [usize; 3]| match allowed.contains(&kind) {
            true => 0,
            false => INVALID_DIRECTION,
        };
        let (source, target) = match kind {
            1 => (host, memory),
            2 => (memory, host),
            _ => (memory, memory),
        };
        let (into, out, across) = (due([1, 3, 4]), due([2, 3, 4]), due([3, 3, 4]));
        for (name, arguments, due) in [
            (
                "cudaMemcpyToArray",
                &[array, 0, 0, source, 16, kind][..],
                into,
            ),
            (
                "cudaMemcpyToArrayAsync",
                &[array, 0, 0, source, 16, kind, 0],
                into,
            ),
            (
                "cudaMemcpy2DToArray",
                &[array, 0, 0, source, 16, 16, 1, kind],
                into,
            ),
            (
                "cudaMemcpy2DToArrayAsync",
                &[array, 0, 0, source, 16, 16, 1, kind, 0],
                into,
            ),
            ("cudaMemcpyFromArray", &[target, array, 0, 0, 16, kind], out),
            (
                "cudaMemcpyFromArrayAsync",
                &[target, array, 0, 0, 16, kind, 0],
                out,
            ),
            (
                "cudaMemcpy2DFromArray",
                &[target, 16, array, 0, 0, 16, 1, kind],
                out,
            ),
            (
                "cudaMemcpy2DFromArrayAsync",
                &[target, 16, array, 0, 0, 16, 1, kind, 0],
                out,
            ),
            (
                "cudaMemcpyArrayToArray",
                &[other, 0, 0, array, 0, 0, 16, kind],
                across,
            ),
            (
                "cudaMemcpy2DArrayToArray",
                &[other, 0, 0, array, 0, 0, 16, 1, kind],
                across,
            ),
        ] {
            let code = program.call_with(name, arguments);
            assert_eq!(code, due, "{name} of kind {kind}");
        }
    }
    ok(program.cudaDeviceSynchronize());
}

/// The handle that nvcc's host code keeps for good outlives what is wrong with a binary.
fn a_binary_that_does_not_load_says_why() {
    let program = Program::start();
    let mut out = program.alloc(16);
    program.__cudaUnregisterFatBinary(program.binary);
    let bad = register_text(
        &program.runtime,
        ".version 8.0\n.target sm_80\n.address_size 64\nnonsense",
    );
    let mut handle = 0_usize;
    let known = stub(0).addr();
    ok(program.call_with("__cudaGetKernel", &[at(&mut handle), known]));
    assert_eq!(handle, known);
    let mut arguments = [at(&mut out)];
    let one = [1 | 1 << 32, 1];
    let arguments = at(&mut arguments);
    let launch = || {
        let all = [handle, one[0], one[1], one[0], one[1], arguments, 0, 0];
        program.call_with("__cudaLaunchKernel", &all)
    };
    for _ in 0..2 {
        refused(launch(), code::INVALID_PTX);
    }
    program.__cudaUnregisterFatBinary(bad);
    register(&program.runtime);
    ok(launch());
    assert_eq!(program.read(out), [40]);
}

fn a_reset_begins_variables_anew_and_ends_errors_of_all_threads() {
    let program = Program::start();
    let (out, base) = (program.alloc(16), 7_u32);
    let from = from_ref(&base).addr() as u64;
    ok(program.cudaMemcpyToSymbol(shadow(), from, 4, 0, TO_DEVICE));
    ok(program.launch(stub(0), 1, out));
    assert_eq!(program.read(out), [7]);
    let runtime = &program.runtime;
    let fault = stub(1).addr();
    let (reset, waits) = channel();
    let (ready, begins) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut argument = out;
            let mut arguments = [from_mut(&mut argument).cast()];
            let fault = std::ptr::without_provenance(fault);
            ok(runtime.cudaLaunchKernel(fault, ONE, ONE, arguments.as_mut_ptr(), 0, 0));
            refused(runtime.cudaDeviceSynchronize(), code::ILLEGAL_ADDRESS);
            for _ in 0..2 {
                assert_eq!(runtime.cudaPeekAtLastError(), code::ILLEGAL_ADDRESS);
                assert_eq!(runtime.cudaGetLastError(), code::ILLEGAL_ADDRESS);
            }
            ready.send(()).expect("it waits");
            waits.recv().expect("it is told");
            // Its context has ended, and the error with it.
            let mut device = 7;
            ok(runtime.cudaGetDevice(&mut device));
            assert_eq!(device, 0);
            assert_eq!(runtime.cudaPeekAtLastError(), 0);
            assert_eq!(runtime.cudaGetLastError(), 0);
            refused(runtime.cudaFree(0xdead_0000), code::INVALID_VALUE);
            assert_eq!(runtime.cudaGetLastError(), code::INVALID_VALUE);
            assert_eq!(runtime.cudaGetLastError(), 0);
        });
        begins.recv().expect("it has begun");
        ok(runtime.cudaDeviceReset());
        reset.send(()).expect("it waits");
    });
    for _ in 0..2 {
        let out = program.alloc(16);
        ok(program.launch(stub(0), 1, out));
        assert_eq!(program.read(out), [40], "the variable has its first value");
        ok(program.cudaMemcpyToSymbol(shadow(), from, 4, 0, TO_DEVICE));
        ok(program.cudaDeviceReset());
    }
}

/// The structures of CUDA 12 end earlier: what stands behind them is neither read nor written.
fn textures_in_the_words_of_both_versions() {
    for (variable, words) in [("CUDART_LIBRARY", 18), ("CUDART12_LIBRARY", 8)] {
        let program = Program::on(variable);
        let memory = bits(program.alloc(64));
        // `cudaResourceDesc`: linear memory, the format in 20 bytes from the third word on, the size.
        let mut texels = [usize::MAX; 18];
        texels[..words].fill(0);
        (texels[0], texels[1], texels[5]) = (2, memory, 64);
        (texels[2], texels[4]) = (32, 2);
        let (mut how, mut texture) = ([0_u32; 18], 0_usize);
        let (place, how_place) = (at(&mut texture), at(&mut how));
        ok(program.call_with(
            "cudaCreateTextureObject",
            &[place, at(&mut texels), how_place, 0],
        ));
        let mut told = [usize::MAX; 18];
        ok(program.call_with(
            "cudaGetTextureObjectResourceDesc",
            &[at(&mut told), texture],
        ));
        assert_eq!(told[0] & 0xffff_ffff, 2);
        assert_eq!((told[1], told[2], told[5]), (memory, 32, 64));
        assert_eq!(told[4] & 0xffff_ffff, 2);
        assert!(told[words..].iter().all(|word| *word == usize::MAX));
        let mut told = [u32::MAX; 18];
        ok(program.call_with("cudaGetTextureObjectTextureDesc", &[at(&mut told), texture]));
        assert_eq!(told, how);
        // It has no view, which is an error here as it is the driver's.
        let mut view = [usize::MAX; 14];
        let refusal = program.call_with(
            "cudaGetTextureObjectResourceViewDesc",
            &[at(&mut view), texture],
        );
        refused(refusal, code::INVALID_VALUE);
        ok(program.call_with("cudaDestroyTextureObject", &[texture]));
    }
}

/// What the launch of [`AtEnd`] was answered.
static PUSHED: AtomicU32 = AtomicU32::new(u32::MAX);

/// Launches when its thread ends.
struct AtEnd(Cell<Option<&'static Functions>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            let code = runtime.__cudaPushCallConfiguration(ONE, ONE, 0, 0);
            // Relaxed: read once the thread was joined.
            PUSHED.store(code, Ordering::Relaxed);
        }
    }
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd(Cell::new(None)) };
}

/// A destructor of a thread's own data may come when the library's data of that thread are gone: the launch is refused.
fn a_launch_at_the_end_of_a_thread() {
    let program: &'static Program = Box::leak(Box::new(Program::start()));
    let runtime = &program.runtime;
    let thread = std::thread::spawn(move || {
        // The library's data come later, so that they go first.
        AT_END.with(|end| end.0.set(Some(runtime)));
        ok(runtime.__cudaPushCallConfiguration(ONE, ONE, 0, 0));
        let (mut grid, mut block, mut shared, mut stream) = (ONE, ONE, 0, 0);
        let places = (&mut grid, &mut block, &mut shared, &mut stream);
        ok(runtime.__cudaPopCallConfiguration(places.0, places.1, places.2, places.3));
    });
    thread.join().expect("no panic");
    // Relaxed: the thread was joined.
    assert_eq!(PUSHED.load(Ordering::Relaxed), UNLOADING);
}

/// A child ends its parent's binaries, whatever locks the parent's threads had as it was made.
fn children_end_while_their_parent_registers() {
    let program = Program::start();
    let out = program.alloc(16);
    ok(program.launch(stub(0), 1, out));
    let is_over = AtomicBool::new(false);
    let (runtime, binary) = (&program.runtime, program.binary.expose_provenance());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Relaxed: the thread ends a round earlier or later.
                while !is_over.load(Ordering::Relaxed) {
                    runtime.__cudaUnregisterFatBinary(register(runtime));
                }
            });
        }
        for _ in 0..60 {
            let binary = std::ptr::with_exposed_provenance_mut(binary);
            let child = in_child(|| {
                runtime.__cudaUnregisterFatBinary(binary);
                0
            });
            assert_eq!(child, 0);
        }
        // Relaxed: see above.
        is_over.store(true, Ordering::Relaxed);
    });
    register(runtime);
    ok(program.launch(stub(0), 1, out));
    assert_eq!(program.read(out), [40]);
}
