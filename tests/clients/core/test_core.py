"""cuda-core: compile C++ to PTX or machine code, link, launch, allocate, measure."""

import os
import subprocess
import sys

import numpy as np
import pytest
from cuda.core import (
    Device,
    EventOptions,
    LaunchConfig,
    Linker,
    LinkerOptions,
    ObjectCode,
    Program,
    ProgramOptions,
    launch,
    system,
)

SAXPY = """
template <typename T>
__global__ void saxpy(T a, const T *x, const T *y, T *out, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
        out[i] = a * x[i] + y[i];
}
"""


@pytest.fixture(scope="module")
def device():
    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    stream = device.create_stream()
    yield stream
    stream.close()


def options(**more):
    return ProgramOptions(arch="sm_80", std="c++17", **more)


def as_array(buffer, dtype):
    """A view of pinned memory."""
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_uint8 * buffer.size).from_address(int(buffer.handle))).view(dtype)


def test_the_device_describes_itself(device):
    assert device.name and device.uuid
    assert device.properties.warp_size == 32
    assert device.properties.multiprocessor_count > 0
    assert (device.compute_capability.major, device.compute_capability.minor) > (0, 0)


@pytest.mark.parametrize("form", ["ptx", "cubin"])
@pytest.mark.parametrize("dtype, name", [(np.float32, "float"), (np.float64, "double")])
def test_a_template_kernel(device, stream, dtype, name, form):
    entry = f"saxpy<{name}>"
    module = Program(SAXPY, code_type="c++", options=options()).compile(form, name_expressions=(entry,))
    kernel = module.get_kernel(entry)
    n = 5000
    from cuda.core import LegacyPinnedMemoryResource

    pinned = LegacyPinnedMemoryResource()
    host = [pinned.allocate(n * dtype().itemsize) for _ in range(3)]
    x, y, out = (as_array(buffer, dtype) for buffer in host)
    x[:], y[:], out[:] = np.arange(n), np.arange(n)[::-1], 0
    buffers = [device.memory_resource.allocate(buffer.size, stream=stream) for buffer in host]
    for source, target in zip(host, buffers):
        target.copy_from(source, stream=stream)
    config = LaunchConfig(grid=16, block=128)
    launch(stream, config, kernel, dtype(2.5), buffers[0], buffers[1], buffers[2], np.uint64(n))
    buffers[2].copy_to(host[2], stream=stream)
    stream.sync()
    np.testing.assert_array_equal(out, dtype(2.5) * x + y)
    for buffer in buffers:
        buffer.close(stream)
    for buffer in host:
        buffer.close()


@pytest.mark.parametrize("form", ["ptx", "cubin"])
def test_linking_through_the_driver(device, stream, form):
    part = Program(
        'extern "C" __device__ float half_of(float x) { return x / 2; }',
        code_type="c++",
        options=options(relocatable_device_code=True),
    ).compile(form)
    main = Program(
        'extern "C" __device__ float half_of(float); extern "C" __global__ void halve(float *v) '
        "{ v[threadIdx.x] = half_of(v[threadIdx.x]); }",
        code_type="c++",
        options=options(relocatable_device_code=True),
    ).compile(form)
    linked = Linker(part, main, options=LinkerOptions(arch="sm_80")).link("cubin")
    kernel = linked.get_kernel("halve")
    values = np.arange(64, dtype=np.float32)
    from cuda.core import LegacyPinnedMemoryResource

    host = LegacyPinnedMemoryResource().allocate(values.nbytes)
    as_array(host, np.float32)[:] = values
    buffer = device.memory_resource.allocate(values.nbytes, stream=stream)
    buffer.copy_from(host, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=64), kernel, buffer)
    buffer.copy_to(host, stream=stream)
    stream.sync()
    np.testing.assert_array_equal(as_array(host, np.float32), values / 2)
    buffer.close(stream)


def test_events_on_streams(device, stream):
    timed = EventOptions(timing_enabled=True)
    start = stream.record(options=timed)
    kernel = Program(
        'extern "C" __global__ void spin(int *v) { for (int i = 0; i < 1000; ++i) atomicAdd(v, 1); }',
        code_type="c++",
        options=options(),
    ).compile("ptx")
    buffer = device.memory_resource.allocate(4, stream=stream)
    launch(stream, LaunchConfig(grid=2, block=32), kernel.get_kernel("spin"), buffer)
    end = stream.record(options=timed)
    other = device.create_stream()
    other.wait(end)
    other.sync()
    end.sync()
    assert end.is_done
    assert end - start > 0
    buffer.close(stream)
    other.close()


def test_an_object_from_ptx_describes_its_kernels(device):
    ptx = Program(SAXPY, code_type="c++", options=options()).compile("ptx", name_expressions=("saxpy<int>",))
    mangled = ptx.symbol_mapping["saxpy<int>"]
    module = ObjectCode.from_ptx(ptx.code)
    kernel = module.get_kernel(mangled)
    assert kernel.attributes.max_threads_per_block == 1024
    assert kernel.attributes.num_regs > 0
    assert kernel.num_arguments == 5
    assert kernel.occupancy.max_active_blocks_per_multiprocessor(128, 0) >= 1


def test_nvjitlink_stays_hidden_after_a_probe_and_a_second_load():
    program = """
import importlib.util
assert importlib.util.find_spec("cuda.pathfinder") is not None
from cuda import pathfinder
for _ in range(2):
    try:
        pathfinder.load_nvidia_dynamic_lib("nvJitLink")
    except pathfinder.DynamicLibNotFoundError as error:
        assert "hidden by gridmux run" in str(error), error
    else:
        raise AssertionError("it was found")
    importlib.reload(pathfinder)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_management_library_tells_what_the_driver_tells(device):
    assert system.get_num_devices() == 1
    known = system.Device(index=0)
    assert known.name == device.name
    assert known.uuid.removeprefix("GPU-") == device.uuid
    assert known.memory_info.total >= known.memory_info.free > 0


def test_the_management_library_finds_a_device_in_every_way(device):
    from cuda.bindings import nvml

    known = device.to_system_device()
    assert known.uuid_without_prefix == device.uuid
    assert known.pci_info.bus_id[4:] == device.pci_bus_id
    by_place = system.Device(pci_bus_id=known.pci_info.bus_id)
    assert by_place.index == known.index == 0
    major, minor = known.cuda_compute_capability
    assert (major, minor) == tuple(device.compute_capability)
    assert known.arch.name == "HOPPER"
    nvml.init_v2()
    assert nvml.system_get_driver_branch().startswith("r")
    assert nvml.unit_get_count() == 0
    assert "python" in nvml.system_get_process_name(os.getpid())
    with pytest.raises(nvml.NotFoundError):
        nvml.system_get_process_name(0)
    assert [each.index for each in system.Device.get_all_devices_with_cpu_affinity(0)] == [0]
    assert list(known.get_topology_nearest_gpus(system.typing.GpuTopologyLevel.INTERNAL)) == []
    handle = nvml.device_get_handle_by_index_v2(0)
    assert nvml.device_get_compute_mode(handle) == 0
    with pytest.raises(nvml.NoPermissionError):
        nvml.device_set_compute_mode(handle, 2)
    with pytest.raises(nvml.NotSupportedError):
        nvml.device_get_serial(handle)
    assert list(nvml.device_get_ecc_mode(handle)) == [0, 0]
    nodes = nvml.device_get_memory_affinity(handle, 1, nvml.AffinityScope.NODE)
    assert nodes[0] & 1
    nvml.shutdown()
