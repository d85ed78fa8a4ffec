//! Cooperative launches, and blocks that wait for each other without them.

use crate::api::{KernelNode, LaunchConfig};
use crate::graphs::{Arguments, Graph, run};
use crate::session::{Session, code, invalid, ok, refused, text};
use std::ffi::c_void;
use std::ptr::{from_mut, null_mut};

scenarios! {
    cooperative: blocks_meet_in_the_middle what_does_not_fit_is_refused blocks_wait_for_each_other
        the_device_runtime_is_linked a_node_stays_cooperative_when_its_parameters_are_set;
}

const PTX: &str = include_str!("cooperative.ptx");
/// A module that needs the device's side of the runtime library.
const GRID: &str = include_str!("grid.ptx");
/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
const COOPERATIVE: u32 = 2;

/// A session with the kernels of this family.
struct Kernels {
    session: Session,
    module: u64,
}

impl Kernels {
    fn load() -> Self {
        let (session, mut module) = (Session::start(), 0);
        ok(session.cuModuleLoadData(&mut module, text(PTX).as_ptr().cast()));
        Self { session, module }
    }

    /// Launches `meet` cooperatively by the function of its own, or by an attribute.
    fn meet(
        &self,
        (blocks, threads): (u32, u32),
        stream: u64,
        (words, out): (u64, u64),
        by_attribute: bool,
    ) -> u32 {
        let session = &self.session;
        let function = session.function_of(self.module, c"meet");
        let (mut words, mut out, mut rounds) = (words, out, 3u32);
        let mut params: [*mut c_void; 3] = [
            from_mut(&mut words).cast(),
            from_mut(&mut out).cast(),
            from_mut(&mut rounds).cast(),
        ];
        let params = params.as_mut_ptr();
        if !by_attribute {
            return session.cuLaunchCooperativeKernel(
                function, blocks, 1, 1, threads, 1, 1, 0, stream, params,
            );
        }
        let mut attribute = [0u32; 18];
        (attribute[0], attribute[2]) = (COOPERATIVE, 1);
        let config = LaunchConfig {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            stream,
            attributes: &attribute,
            attribute_count: 1,
        };
        session.cuLaunchKernelEx(&config, function, params, null_mut())
    }

    /// Returns how many blocks of `meet` the device holds at once.
    fn held(&self, threads: i32) -> u32 {
        let function = self.session.function_of(self.module, c"meet");
        let mut blocks = 0;
        let most = &mut blocks;
        let asked = self
            .session
            .cuOccupancyMaxActiveBlocksPerMultiprocessor(most, function, threads, 0);
        ok(asked);
        u32::try_from(blocks * self.session.attribute(16)).unwrap()
    }
}

fn blocks_meet_in_the_middle() {
    let kernels = Kernels::load();
    let session = &kernels.session;
    assert_eq!(session.attribute(95), 1, "cooperative launches");
    let held = kernels.held(64);
    let stream = session.stream(1);
    for (blocks, by_attribute) in [(1, false), (7, true), (held, false), (held, true)] {
        let zeroes = vec![0; blocks as usize];
        let places = (session.words(&zeroes), session.words(&zeroes));
        // One behind the other in a stream, each with a barrier of its own.
        for _ in 0..3 {
            ok(kernels.meet((blocks, 64), stream, places, by_attribute));
        }
        ok(session.cuStreamSynchronize(stream));
        let due = vec![7 + 8 + 9; blocks as usize];
        assert_eq!(session.read(places.1, blocks as usize), due);
        ok(session.cuMemFree_v2(places.0));
        ok(session.cuMemFree_v2(places.1));
    }
    // In several streams at once.
    let streams = [0; 4].map(|_| session.stream(1));
    let places = streams.map(|_| (session.words(&[0; 32]), session.words(&[0; 32])));
    for (stream, places) in streams.into_iter().zip(places) {
        ok(kernels.meet((32, 128), stream, places, false));
    }
    for (stream, places) in streams.into_iter().zip(places) {
        ok(session.cuStreamSynchronize(stream));
        assert_eq!(session.read(places.1, 32), [24; 32]);
    }
    // An ordinary launch finds no barrier.
    let meet = session.function_of(kernels.module, c"meet");
    ok(session.launch(meet, (2, 32), 0, &[places[0].0, places[0].1, 1]));
    refused(session.cuCtxSynchronize(), code::LAUNCH_FAILED);
}

fn what_does_not_fit_is_refused() {
    let kernels = Kernels::load();
    let session = &kernels.session;
    let out = session.words(&[0; 4]);
    for threads in [32, 1024] {
        let held = kernels.held(threads);
        for by_attribute in [false, true] {
            for blocks in [held + 1, u32::MAX >> 1] {
                let shape = (blocks, threads.unsigned_abs());
                let launched = kernels.meet(shape, 0, (out, out), by_attribute);
                refused(launched, code::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
    }
    invalid(kernels.meet((0, 32), 0, (out, out), false));
    invalid(kernels.meet((1, 1025), 0, (out, out), false));
    let chain = session.function_of(kernels.module, c"chain");
    let none = null_mut();
    invalid(session.cuLaunchCooperativeKernel(chain, 1, 1, 1, 1, 1, 1, 0, 0, none));
    let call = session.cuLaunchCooperativeKernel(0, 1, 1, 1, 1, 1, 1, 0, 0, none);
    refused(call, code::INVALID_HANDLE);
    ok(session.cuCtxSynchronize());
}

fn blocks_wait_for_each_other() {
    let kernels = Kernels::load();
    let session = &kernels.session;
    let chain = session.function_of(kernels.module, c"chain");
    // 4 SMs hold 32 blocks each.
    for blocks in [2usize, 3, 64, 128] {
        let words = session.words(&vec![0; blocks]);
        let shape = (u32::try_from(blocks).unwrap(), 1);
        ok(session.launch(chain, shape, 0, &[words]));
        assert_eq!(session.read(words, blocks), vec![1; blocks]);
        ok(session.cuMemFree_v2(words));
    }
}

fn the_device_runtime_is_linked() {
    let session = Session::start();
    let (mut link, mut module) = (0, 0);
    let (none, nothing) = (null_mut(), null_mut());
    ok(session.cuLinkCreate_v2(0, none, nothing, &mut link));
    let text = text(GRID);
    let (data, bytes) = (text.as_ptr().cast_mut().cast(), text.as_bytes().len());
    let add = |kind: u32, data: *mut c_void, bytes: usize, name: &std::ffi::CStr| {
        session.cuLinkAddData_v2(link, kind, data, bytes, name.as_ptr(), 0, none, nothing)
    };
    ok(add(1, data, bytes, c"grid.ptx"));
    // What the library holds for NVIDIA's linker is not read.
    let mut archive = *b"!<arch>\n";
    for _ in 0..2 {
        let (data, bytes) = (archive.as_mut_ptr().cast(), archive.len());
        ok(add(4, data, bytes, c"/usr/lib/libcudadevrt.a"));
    }
    let (mut image, mut bytes) = (null_mut(), 0);
    ok(session.cuLinkComplete(link, &mut image, &mut bytes));
    ok(session.cuModuleLoadData(&mut module, image));
    ok(session.cuLinkDestroy(link));
    let shift = session.function_of(module, c"shift");
    let (mut words, mut out) = (session.words(&[0; 40]), session.words(&[0; 40]));
    let mut params: [*mut c_void; 2] = [from_mut(&mut words).cast(), from_mut(&mut out).cast()];
    let params = params.as_mut_ptr();
    ok(session.cuLaunchCooperativeKernel(shift, 40, 1, 1, 96, 1, 1, 0, 0, params));
    let due: Vec<u32> = (0..40).map(|block| (block + 1) % 40 + 1).collect();
    assert_eq!(session.read(out, 40), due);
}

fn a_node_stays_cooperative_when_its_parameters_are_set() {
    const BLOCKS: u32 = 5;
    let kernels = Kernels::load();
    let session = &kernels.session;
    let stream = session.stream(1);
    let [words, first, second] = [0; 3].map(|_| session.words(&[0; BLOCKS as usize]));
    ok(session.cuStreamBeginCapture_v2(stream, 0));
    ok(kernels.meet((BLOCKS, 64), stream, (words, first), false));
    let mut graph = 0;
    ok(session.cuStreamEndCapture(stream, &mut graph));
    let graph = Graph::of(session, graph);
    let executable = graph.instantiate();
    let node = graph.nodes()[0];
    let mut arguments = Arguments::of(&[words, second, 3]);
    let function = session.function_of(kernels.module, c"meet");
    let mut params = KernelNode {
        grid: [BLOCKS, 1, 1],
        block: [64, 1, 1],
        ..arguments.node(function)
    };
    ok(session.cuGraphExecKernelNodeSetParams_v2(executable, node, &params));
    run(session, executable, stream);
    assert_eq!(session.read(second, BLOCKS as usize), [24; BLOCKS as usize]);
    assert_eq!(session.read(first, BLOCKS as usize), [0; BLOCKS as usize]);
    // More than meet at once cannot.
    params.grid = [kernels.held(64) + 1, 1, 1];
    let refusal = session.cuGraphExecKernelNodeSetParams_v2(executable, node, &params);
    refused(refusal, code::COOPERATIVE_LAUNCH_TOO_LARGE);
    run(session, executable, stream);
}
