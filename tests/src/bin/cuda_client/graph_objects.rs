//! What graphs hold and name: memory of their own, user objects, handles that name nothing, and drawings.

use crate::api::{AllocateNode, PoolProperties};
use crate::graphs::{Arguments, Graph, fill_of, run};
use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ffi::{CString, c_void};
use std::ptr::{from_mut, null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

scenarios! {
    graphs: memory_nodes user_objects destroyed_and_foreign_handles drawings limits_hold_inside
        what_launches_used_goes_while_another_stream_waits;
}

fn used(session: &Session) -> u64 {
    let mut bytes = 0_u64;
    ok(session.cuDeviceGetGraphMemAttribute(0, 0, from_mut(&mut bytes).cast()));
    bytes
}

/// Returns what a node that allocates a page is made of.
fn allocation() -> AllocateNode {
    AllocateNode {
        pool: PoolProperties {
            alloc_type: 1,
            handle_types: 0,
            location_type: 1,
            location_id: 0,
            reserved: [0; 9],
        },
        access: null(),
        access_count: 0,
        bytes: 4096,
        address: 0,
    }
}

fn memory_nodes() {
    let session = Session::start();
    let before = session.free_bytes();
    let graph = Graph::new(&session);
    let mut params = allocation();
    let mut node = 0;
    ok(session.cuGraphAddMemAllocNode(&mut node, graph.handle, null(), 0, &mut params));
    let address = params.address;
    assert!(address != 0 && used(&session) >= 4096);
    let filled = graph.fill(address, 6, 1024, &[node]);
    graph.kernel(c"next", &[address, address], &[filled]);
    // Such graphs stay as they are, are not copied and have one executable graph.
    let mut other = 0;
    refused(
        session.cuGraphClone(&mut other, graph.handle),
        code::NOT_SUPPORTED,
    );
    refused(session.cuGraphDestroyNode(filled), code::NOT_SUPPORTED);
    let executable = graph.instantiate();
    invalid(graph.refuse());
    run(&session, executable, 0);
    assert_eq!(session.read(address, 2), [7, 6]);
    // A node that is not added gives nothing back, so that the program still may.
    let stray = 0x77_0077;
    invalid(session.cuGraphAddMemFreeNode(&mut other, graph.handle, &stray, 1, address));
    // What was allocated must be given back before it is allocated again.
    invalid(session.cuGraphLaunch(executable, 0));
    ok(session.cuMemFreeAsync(address, 0));
    invalid(session.cuMemFreeAsync(address, 0));
    run(&session, executable, 0);
    // Another graph may give it back, once.
    let freeing = Graph::new(&session);
    ok(session.cuGraphAddMemFreeNode(&mut other, freeing.handle, null(), 0, address));
    invalid(session.cuGraphAddMemFreeNode(&mut other, freeing.handle, null(), 0, address));
    invalid(session.cuGraphAddMemFreeNode(&mut other, graph.handle, null(), 0, address));
    invalid(session.cuGraphAddMemFreeNode(&mut other, freeing.handle, null(), 0, 0));
    run(&session, freeing.instantiate(), 0);
    run(&session, executable, 0);
    ok(session.cuGraphExecDestroy(executable));
    let mut freed_first = 0;
    ok(session.cuGraphInstantiateWithFlags(&mut freed_first, graph.handle, 1));
    for _ in 0..3 {
        run(&session, freed_first, 0);
    }
    // What lives beyond its graph is the program's, until it gives it back.
    ok(session.cuGraphExecDestroy(freed_first));
    ok(session.cuGraphDestroy(graph.handle));
    assert_eq!(session.read(address, 1), [7]);
    ok(session.cuGraphDestroy(freeing.handle));
    ok(session.cuMemFree_v2(address));
    invalid(session.cuMemFree_v2(address));
    params.bytes = 0;
    let last = Graph::new(&session);
    invalid(session.cuGraphAddMemAllocNode(&mut node, last.handle, null(), 0, &mut params));
    ok(session.cuDeviceGraphMemTrim(0));
    // The executable graph that gives memory back still holds it.
    assert!(used(&session) <= 4096);
    assert!(session.free_bytes() + 8192 >= before);
}

/// How often objects were destroyed, by the number that is their data.
static DESTROYED: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

extern "C" fn destroyed(number: *mut c_void) {
    // Relaxed: the number is all that counts.
    DESTROYED[number.addr()].fetch_add(1, Ordering::Relaxed);
}

/// Waits until objects were destroyed so often; destructors run on a thread of the library's.
fn await_destroyed(due: [u32; 2]) {
    let now = || {
        DESTROYED
            .each_ref()
            // Relaxed: the number is all that counts.
            .map(|count| count.load(Ordering::Relaxed))
    };
    let start = Instant::now();
    while now() != due {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{:?}, due {due:?}",
            now()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn user_objects() {
    let session = Session::start();
    let make = |number: usize, count: u32| {
        let mut object = 0;
        let data = std::ptr::without_provenance_mut(number);
        ok(session.cuUserObjectCreate(&mut object, data, Some(destroyed), count, 1));
        object
    };
    let mut object = 0;
    let some: Option<extern "C" fn(*mut c_void)> = Some(destroyed);
    for (destructor, count, flags) in [(None, 1, 1), (some, 0, 1), (some, 1, 0)] {
        invalid(session.cuUserObjectCreate(&mut object, null_mut(), destructor, count, flags));
    }
    let (zero, one) = (make(0, 1), make(1, 2));
    ok(session.cuUserObjectRetain(zero, 2));
    invalid(session.cuUserObjectRelease(zero, 4));
    ok(session.cuUserObjectRelease(zero, 2));
    let graph = Graph::new(&session);
    graph.kernel(c"slow", &[session.words(&[0]), 1000, 1], &[]);
    // The program's references are moved, or stay beside those of the graph.
    ok(session.cuGraphRetainUserObject(graph.handle, zero, 1, 1));
    ok(session.cuGraphRetainUserObject(graph.handle, one, 3, 0));
    invalid(session.cuGraphRetainUserObject(graph.handle, zero, 1, 1));
    invalid(session.cuGraphReleaseUserObject(graph.handle, one, 4));
    ok(session.cuGraphReleaseUserObject(graph.handle, one, 3));
    await_destroyed([0, 0]);
    ok(session.cuUserObjectRelease(one, 2));
    await_destroyed([0, 1]);
    invalid(session.cuUserObjectRelease(one, 1));
    // An executable graph, and a graph that a node has a copy of, hold it too, until what was launched has ended.
    let executable = graph.instantiate();
    let parent = Graph::new(&session);
    let mut node = 0;
    ok(session.cuGraphAddChildGraphNode(&mut node, parent.handle, null(), 0, graph.handle));
    ok(session.cuGraphDestroy(graph.handle));
    ok(session.cuGraphDestroy(parent.handle));
    ok(session.cuGraphLaunch(executable, 0));
    ok(session.cuGraphExecDestroy(executable));
    ok(session.cuCtxSynchronize());
    await_destroyed([1, 1]);
}

fn destroyed_and_foreign_handles() {
    let session = Session::start();
    let (graph, other) = (Graph::new(&session), Graph::new(&session));
    let (a, b) = (graph.empty(&[]), other.empty(&[]));
    let (mut node, mut count) = (0, 0);
    invalid(graph.connect(a, b));
    invalid(session.cuGraphAddEmptyNode(&mut node, graph.handle, &b, 1));
    ok(session.cuGraphDestroyNode(a));
    invalid(session.cuGraphDestroyNode(a));
    invalid(session.cuGraphNodeGetType(a, &mut 0));
    ok(session.cuGraphDestroy(other.handle));
    invalid(session.cuGraphDestroy(other.handle));
    invalid(session.cuGraphNodeGetType(b, &mut 0));
    invalid(session.cuGraphGetNodes(other.handle, null_mut(), &mut count));
    invalid(session.cuGraphAddEmptyNode(&mut node, other.handle, null(), 0));
    invalid(other.refuse());
    for handle in [0, 1, a, session.event(), session.context, u64::MAX] {
        invalid(session.cuGraphGetNodes(handle, null_mut(), &mut count));
        invalid(session.cuGraphLaunch(handle, 0));
        invalid(session.cuGraphDestroyNode(handle));
        invalid(session.cuUserObjectRelease(handle, 1));
    }
    // A node is of one type, and its parameters are of that type.
    let fill = graph.fill(session.words(&[0]), 1, 1, &[]);
    let mut kernel = Arguments::of(&[]).node(session.function(c"trap"));
    invalid(session.cuGraphKernelNodeGetParams_v2(fill, &mut kernel));
    invalid(session.cuGraphKernelNodeSetParams_v2(fill, &kernel));
    let mut seen = fill_of(0, 0, 0);
    ok(session.cuGraphMemsetNodeGetParams(fill, &mut seen));
    assert_eq!((seen.value, seen.width), (1, 1));
    // What a node names must be there when the node is made.
    kernel.block = [2048, 1, 1];
    invalid(session.cuGraphAddKernelNode_v2(&mut node, graph.handle, null(), 0, &kernel));
    kernel.function = 0;
    invalid(session.cuGraphAddKernelNode_v2(&mut node, graph.handle, null(), 0, &kernel));
    let nowhere = fill_of(0x1000, 1, 1);
    let context = session.context;
    invalid(session.cuGraphAddMemsetNode(&mut node, graph.handle, null(), 0, &nowhere, context));
    // And when it is launched.
    let gone = session.words(&[0]);
    let late = Graph::new(&session);
    late.fill(gone, 1, 1, &[]);
    let executable = late.instantiate();
    ok(session.cuMemFree_v2(gone));
    invalid(session.cuGraphLaunch(executable, 0));
    ok(session.cuCtxSynchronize());
}

fn drawings() {
    let session = Session::start();
    let graph = Graph::new(&session);
    let first = graph.kernel(c"next", &[session.words(&[0]), session.words(&[0])], &[]);
    graph.empty(&[first]);
    let path = std::env::temp_dir().join(format!("graph-{}.dot", std::process::id()));
    let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("no zero inside");
    ok(session.cuGraphDebugDotPrint(graph.handle, name.as_ptr(), 1));
    let drawn = std::fs::read_to_string(&path).expect("the drawing is there");
    std::fs::remove_file(&path).expect("it can be removed");
    assert!(
        drawn.starts_with("digraph") && drawn.contains("kernel: next"),
        "{drawn}"
    );
    assert_eq!(drawn.matches("->").count(), 1, "{drawn}");
    invalid(session.cuGraphDebugDotPrint(graph.handle, name.as_ptr(), 1 << 30));
    let nowhere = c"/nonexistent/graph.dot".as_ptr();
    refused(session.cuGraphDebugDotPrint(graph.handle, nowhere, 0), 304);
}

/// A kernel in a graph ends at its budget as others do, and memory of a graph counts as other memory does.
fn limits_hold_inside() {
    let session = Session::start();
    let graph = Graph::new(&session);
    let mut params = AllocateNode {
        bytes: 128 << 20,
        ..allocation()
    };
    let mut node = 0;
    let over = session.cuGraphAddMemAllocNode(&mut node, graph.handle, null(), 0, &mut params);
    refused(over, code::OUT_OF_MEMORY);
    let first = graph.kernel(c"next", &[session.words(&[0]), session.words(&[0])], &[]);
    graph.kernel(c"endless", &[], &[first]);
    let stream = session.stream(0);
    ok(session.cuGraphLaunch(graph.instantiate(), stream));
    refused(session.cuStreamSynchronize(stream), code::LAUNCH_TIMEOUT);
}

/// The host function that [`holds_up`] is may end.
static MAY_END: AtomicBool = AtomicBool::new(false);

extern "C" fn holds_up(_: *mut c_void) {
    // Relaxed: the word is all that counts.
    while !MAY_END.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Memory that the launches of a graph copied through is given back without waiting for other streams, one of which may
/// wait for this very thread.
fn what_launches_used_goes_while_another_stream_waits() {
    let session = Session::start();
    let device = session.words(&[1, 2]);
    let own: &'static mut [u32; 2] = Box::leak(Box::new([0; 2]));
    let address = own.as_mut_ptr().expose_provenance() as u64;
    let graph = Graph::new(&session);
    graph.copy((device, true), (address, false), 8, &[]);
    let (stream, other) = (session.stream(NON_BLOCKING), session.stream(NON_BLOCKING));
    let executables = [graph.instantiate(), graph.instantiate()];
    for executable in executables {
        run(&session, executable, stream);
    }
    assert_eq!(*own, [1, 2]);
    // Relaxed: the word is all that counts, here and below.
    let ends = |ends| MAY_END.store(ends, Ordering::Relaxed);
    std::thread::scope(|scope| {
        ok(session.cuLaunchHostFunc(other, Some(holds_up), null_mut()));
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let watch = scope.spawn(move || {
            let in_time = is_done.recv_timeout(Duration::from_secs(30)).is_ok();
            ends(true);
            in_time
        });
        ok(session.cuGraphExecDestroy(executables[0]));
        ok(session.cuGraphExecDestroy(executables[1]));
        ok(session.cuStreamSynchronize(stream));
        done.send(()).expect("the other thread waits");
        assert!(
            watch.join().expect("no panic"),
            "it waited for the other stream"
        );
    });
    ok(session.cuStreamSynchronize(other));
}
