"""cuda-core: graphs built by calls and by capture, updated, and with memory, callbacks and events."""

import ctypes
import gc
import time
import weakref

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import Device, GraphMemoryResource, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch
from cuda.core._utils.cuda_utils import CUDAError
from cuda.core.graph import EmptyNode, GraphBuilder, GraphCompleteOptions, GraphDefinition, GraphDebugPrintOptions

SOURCE = """
extern "C" __global__ void add(int *v, int n) { atomicAdd(v, n); }
extern "C" __global__ void dims(int *v) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *v = gridDim.x * 1000 + blockDim.x;
}
"""
ONE = LaunchConfig(grid=1, block=1)


@pytest.fixture(scope="module")
def device():
    device = Device(0)
    device.set_current()
    return device


@pytest.fixture(scope="module")
def module(device):
    options = ProgramOptions(arch="sm_80", std="c++17")
    return Program(SOURCE, code_type="c++", options=options).compile("ptx")


@pytest.fixture
def stream(device):
    stream = device.create_stream()
    yield stream
    stream.close()


@pytest.fixture
def word(device, stream):
    buffer = device.memory_resource.allocate(8, stream=stream)
    buffer.fill(0, stream=stream)
    stream.sync()
    yield buffer
    buffer.close(stream)


def pinned(size):
    buffer = LegacyPinnedMemoryResource().allocate(size)
    return buffer, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(buffer.handle)))


def read(buffer, stream):
    host, view = pinned(buffer.size)
    buffer.copy_to(host, stream=stream)
    stream.sync()
    return view.view(np.int32).tolist()


def run(graph, stream):
    graph.launch(stream)
    stream.sync()


def gone(reference):
    for _ in range(250):
        gc.collect()
        if reference() is None:
            return True
        time.sleep(0.02)
    return False


def test_a_diamond_is_what_it_was_built_as(module, stream, word):
    add = module.get_kernel("add")
    graph = GraphDefinition()
    top = graph.launch(ONE, add, word, 1)
    left, right = (top.launch(ONE, add, word, n) for n in (10, 100))
    bottom = left.join(right)
    assert isinstance(bottom, EmptyNode)
    assert graph.nodes() == {top, left, right, bottom}
    assert graph.edges() == {(top, left), (top, right), (left, bottom), (right, bottom)}
    assert set(bottom.pred) == {left, right} and set(top.succ) == {left, right}
    executable = graph.instantiate()
    executable.upload(stream)
    for _ in range(3):
        run(executable, stream)
    assert read(word, stream)[0] == 333
    right.destroy()
    assert graph.edges() == {(top, left), (left, bottom)} and not right.is_valid
    run(graph.instantiate(), stream)
    assert read(word, stream)[0] == 344
    run(executable, stream)
    assert read(word, stream)[0] == 455


def test_edges_that_cannot_be(device):
    graph = GraphDefinition()
    a, b = graph.empty(), graph.empty()
    with pytest.raises(CUDAError):
        a.succ.add(a)
    b.destroy()
    with pytest.raises((CUDAError, RuntimeError)):
        a.succ.add(b)
    a.succ.update([graph.empty(), graph.empty()])
    first, second = a.succ
    first.succ.add(second)
    second.succ.add(a)
    with pytest.raises(RuntimeError, match="invalid structure"):
        graph.instantiate()
    second.succ.clear()
    graph.instantiate()


def test_capture_with_branches_and_a_graph_inside(device, module, stream, word):
    add = module.get_kernel("add")
    inner = device.create_graph_builder().begin_building()
    launch(inner, ONE, add, word, 1000)
    inner.end_building()
    builder = device.create_graph_builder().begin_building("global")
    launch(builder, ONE, add, word, 1)
    left, right = builder.split(2)
    launch(left, ONE, add, word, 10)
    launch(right, ONE, add, word, 100)
    builder = GraphBuilder.join(left, right)
    builder.embed(inner)
    called = []
    builder.callback(lambda: called.append(True))
    graph = builder.end_building().complete()
    assert read(word, stream)[0] == 0
    run(graph, stream)
    run(graph, stream)
    assert read(word, stream)[0] == 2222 and called == [True, True]


def test_a_launch_that_may_begin_early_is_an_edge_that_says_so(device, module, stream, word):
    early = LaunchConfig(grid=1, block=1, programmatic_stream_serialization=True)
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, module.get_kernel("add"), word, 1)
    launch(builder, early, module.get_kernel("add"), word, 2)
    builder.end_building()
    status, from_, to, data, count = driver.cuGraphGetEdges(builder.graph_definition.handle, 1)
    assert status == 0 and count == 1
    assert data[0].type == driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
    assert data[0].from_port == 1
    run(builder.complete(), stream)
    assert read(word, stream)[0] == 3


def test_a_captured_stream_is_not_waited_for(device, module, stream, word):
    builder = stream.create_graph_builder().begin_building()
    launch(builder, ONE, module.get_kernel("add"), word, 1)
    with pytest.raises(CUDAError, match="STREAM_CAPTURE_UNSUPPORTED"):
        stream.sync()
    with pytest.raises(RuntimeError, match="invalidated"):
        builder.end_building()
    with pytest.raises(CUDAError, match="STREAM_CAPTURE_INVALIDATED"):
        builder.close()
    launch(stream, ONE, module.get_kernel("add"), word, 1)
    assert read(word, stream)[0] == 1


def test_updates_of_nodes_and_of_whole_graphs(module, stream, word):
    add, dims = module.get_kernel("add"), module.get_kernel("dims")
    graph = GraphDefinition()
    node = graph.launch(ONE, add, word, 1)
    before = graph.instantiate()
    node.update(args=(word, 50))
    after = graph.instantiate()
    run(before, stream)
    run(after, stream)
    assert read(word, stream)[0] == 51
    view = after[node]
    view.disable()
    run(after, stream)
    assert read(word, stream)[0] == 51 and not view.is_enabled
    view.enable()
    view.update(config=LaunchConfig(grid=2, block=3), kernel=dims, args=(word,))
    run(after, stream)
    assert read(word, stream)[0] == 2003
    same = GraphDefinition()
    same.launch(ONE, add, word, 7)
    before.update(same)
    run(before, stream)
    assert read(word, stream)[0] == 2010
    same.empty()
    with pytest.raises(CUDAError, match="CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED"):
        before.update(same)


def test_memory_of_a_graph(device, module, stream, word):
    graph = GraphDefinition()
    memory = graph.allocate(64)
    filled = memory.memset(memory.dptr, b"\x01\x00\x00\x00", 16)
    added = filled.launch(ONE, module.get_kernel("add"), memory.dptr, 5)
    added.memcpy(int(word.handle), memory.dptr, 8).deallocate(memory.dptr)
    with pytest.raises(CUDAError):
        filled.destroy()
    executable = graph.instantiate()
    for _ in range(2):
        run(executable, stream)
    assert read(word, stream) == [6, 1]
    resource = GraphMemoryResource(device)
    builder = device.create_graph_builder().begin_building()
    buffer = resource.allocate(8, stream=builder)
    buffer.copy_from(word, stream=builder)
    executable = builder.end_building().complete(GraphCompleteOptions(auto_free_on_launch=True))
    for _ in range(2):
        run(executable, stream)
    assert read(buffer, stream) == [6, 1]
    assert resource.attributes.used_mem_current > 0
    buffer.close(stream)


def test_events_and_callbacks_of_a_graph(device, stream):
    event = device.create_event()
    seen = []
    graph = GraphDefinition()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
        lambda data: seen.append(ctypes.cast(data, ctypes.POINTER(ctypes.c_uint8))[0])
    )
    graph.record(event).wait(event).callback(function, user_data=b"\xab")
    run(graph.instantiate(), stream)
    assert seen == [0xAB] and event.is_done


def test_what_a_callback_needs_lives_as_long_as_graphs_do(stream):
    def callback():
        pass

    reference = weakref.ref(callback)
    graph = GraphDefinition()
    graph.callback(callback)
    executable = graph.instantiate()
    del callback, graph
    gc.collect()
    assert reference() is not None
    run(executable, stream)
    executable.close()
    assert gone(reference)


def test_host_memory_in_a_graph(stream):
    (source, bytes_of_source), (target, bytes_of_target) = pinned(4), pinned(4)
    graph = GraphDefinition()
    graph.memset(source, 0x21, 4).memcpy(target, source, 3)
    run(graph.instantiate(), stream)
    assert bytes_of_source.tolist() == [0x21] * 4 and bytes_of_target.tolist() == [0x21] * 3 + [0]


def test_a_graph_can_be_drawn(module, tmp_path, word):
    graph = GraphDefinition()
    graph.launch(ONE, module.get_kernel("add"), word, 1).launch(ONE, module.get_kernel("dims"), word)
    path = tmp_path / "graph.dot"
    graph.debug_dot_print(str(path), GraphDebugPrintOptions(verbose=True, handles=True))
    drawn = path.read_text()
    assert drawn.startswith("digraph") and drawn.count("->") == 1 and "dims" in drawn


def test_conditional_nodes_are_refused(device):
    with pytest.raises(CUDAError, match="NOT_SUPPORTED"):
        GraphDefinition().create_condition(default_value=1)
