//! Nodes whose parameters are the driver's: host functions, graphs inside of nodes, events, memory, and those that do
//! nothing; and the attributes of kernels.

use crate::api::runtime_api;
use crate::border::Place;
use crate::current::ready;
use crate::status::CudaResult;
use std::ffi::{c_int, c_uint, c_void};

runtime_api! {
    cudaGraphAddEmptyNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize) => add_empty;
    cudaGraphAddHostNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const c_void,
    ) => add_host;
    cudaGraphHostNodeGetParams(node: u64, params: *mut c_void) => get_host;
    cudaGraphHostNodeSetParams(node: u64, params: *const c_void) => set_host;
    cudaGraphExecHostNodeSetParams(executable: u64, node: u64, params: *const c_void) => update_host;
    cudaGraphAddChildGraphNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, child: u64,
    ) => add_child;
    cudaGraphChildGraphNodeGetGraph(node: u64, graph: *mut u64) => child_of;
    cudaGraphExecChildGraphNodeSetParams(executable: u64, node: u64, child: u64) => update_child;
    cudaGraphAddEventRecordNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, event: u64,
    ) => add_record;
    cudaGraphEventRecordNodeGetEvent(node: u64, event: *mut u64) => get_record;
    cudaGraphEventRecordNodeSetEvent(node: u64, event: u64) => set_record;
    cudaGraphExecEventRecordNodeSetEvent(executable: u64, node: u64, event: u64) => update_record;
    cudaGraphAddEventWaitNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, event: u64,
    ) => add_wait;
    cudaGraphEventWaitNodeGetEvent(node: u64, event: *mut u64) => get_wait;
    cudaGraphEventWaitNodeSetEvent(node: u64, event: u64) => set_wait;
    cudaGraphExecEventWaitNodeSetEvent(executable: u64, node: u64, event: u64) => update_wait;
    cudaGraphAddMemAllocNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *mut c_void,
    ) => add_allocate;
    cudaGraphMemAllocNodeGetParams(node: u64, params: *mut c_void) => get_allocate;
    cudaGraphAddMemFreeNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, address: u64,
    ) => add_free;
    cudaGraphMemFreeNodeGetParams(node: u64, address: *mut u64) => get_free;
    cudaDeviceGraphMemTrim(device: c_int) => trim;
    cudaDeviceGetGraphMemAttribute(device: c_int, attribute: c_uint, value: *mut c_void) => get_attribute;
    cudaDeviceSetGraphMemAttribute(device: c_int, attribute: c_uint, value: *mut c_void) => set_attribute;
    cudaGraphKernelNodeCopyAttributes(to: u64, from: u64) => copy_kernel_attributes;
    cudaGraphKernelNodeGetAttribute(node: u64, attribute: c_uint, value: *mut c_void) => get_kernel_attribute;
    cudaGraphKernelNodeSetAttribute(node: u64, attribute: c_uint, value: *const c_void) => set_kernel_attribute;
}

fn add_empty(node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize) -> CudaResult {
    ready()?.cuGraphAddEmptyNode(node, graph, dependencies, count)
}

fn add_host(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    params: Place<c_void>,
) -> CudaResult {
    ready()?.cuGraphAddHostNode(node, graph, dependencies, count, params)
}

fn get_host(node: u64, params: Place<c_void>) -> CudaResult {
    ready()?.cuGraphHostNodeGetParams(node, params)
}

fn set_host(node: u64, params: Place<c_void>) -> CudaResult {
    ready()?.cuGraphHostNodeSetParams(node, params)
}

fn update_host(executable: u64, node: u64, params: Place<c_void>) -> CudaResult {
    ready()?.cuGraphExecHostNodeSetParams(executable, node, params)
}

fn add_child(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    child: u64,
) -> CudaResult {
    ready()?.cuGraphAddChildGraphNode(node, graph, dependencies, count, child)
}

fn child_of(node: u64, graph: Place<u64>) -> CudaResult {
    ready()?.cuGraphChildGraphNodeGetGraph(node, graph)
}

fn update_child(executable: u64, node: u64, child: u64) -> CudaResult {
    ready()?.cuGraphExecChildGraphNodeSetParams(executable, node, child)
}

fn add_record(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    event: u64,
) -> CudaResult {
    ready()?.cuGraphAddEventRecordNode(node, graph, dependencies, count, event)
}

fn get_record(node: u64, event: Place<u64>) -> CudaResult {
    ready()?.cuGraphEventRecordNodeGetEvent(node, event)
}

fn set_record(node: u64, event: u64) -> CudaResult {
    ready()?.cuGraphEventRecordNodeSetEvent(node, event)
}

fn update_record(executable: u64, node: u64, event: u64) -> CudaResult {
    ready()?.cuGraphExecEventRecordNodeSetEvent(executable, node, event)
}

fn add_wait(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    event: u64,
) -> CudaResult {
    ready()?.cuGraphAddEventWaitNode(node, graph, dependencies, count, event)
}

fn get_wait(node: u64, event: Place<u64>) -> CudaResult {
    ready()?.cuGraphEventWaitNodeGetEvent(node, event)
}

fn set_wait(node: u64, event: u64) -> CudaResult {
    ready()?.cuGraphEventWaitNodeSetEvent(node, event)
}

fn update_wait(executable: u64, node: u64, event: u64) -> CudaResult {
    ready()?.cuGraphExecEventWaitNodeSetEvent(executable, node, event)
}

fn add_allocate(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    params: Place<c_void>,
) -> CudaResult {
    ready()?.cuGraphAddMemAllocNode(node, graph, dependencies, count, params)
}

fn get_allocate(node: u64, params: Place<c_void>) -> CudaResult {
    ready()?.cuGraphMemAllocNodeGetParams(node, params)
}

fn add_free(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    address: u64,
) -> CudaResult {
    ready()?.cuGraphAddMemFreeNode(node, graph, dependencies, count, address)
}

fn get_free(node: u64, address: Place<u64>) -> CudaResult {
    ready()?.cuGraphMemFreeNodeGetParams(node, address)
}

fn trim(device: c_int) -> CudaResult {
    ready()?.cuDeviceGraphMemTrim(device)
}

fn get_attribute(device: c_int, attribute: c_uint, value: Place<c_void>) -> CudaResult {
    ready()?.cuDeviceGetGraphMemAttribute(device, attribute, value)
}

fn set_attribute(device: c_int, attribute: c_uint, value: Place<c_void>) -> CudaResult {
    ready()?.cuDeviceSetGraphMemAttribute(device, attribute, value)
}

fn copy_kernel_attributes(to: u64, from: u64) -> CudaResult {
    ready()?.cuGraphKernelNodeCopyAttributes(to, from)
}

fn get_kernel_attribute(node: u64, attribute: c_uint, value: Place<c_void>) -> CudaResult {
    ready()?.cuGraphKernelNodeGetAttribute(node, attribute, value)
}

fn set_kernel_attribute(node: u64, attribute: c_uint, value: Place<c_void>) -> CudaResult {
    ready()?.cuGraphKernelNodeSetAttribute(node, attribute, value)
}
