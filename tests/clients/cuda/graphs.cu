// Graphs on the CUDA runtime API as nvcc users write them: built by calls, captured over two streams, changed, copied,
// with memory of their own, host functions and user objects, and what is refused. It prints one line for what is wrong,
// and ends with 1.

#include <cstdio>
#include <unistd.h>

static int wrong = 0;

#define CHECK(call)                                                                                 \
  do {                                                                                              \
    cudaError_t error = (call);                                                                     \
    if (error != cudaSuccess) {                                                                     \
      std::printf("line %d: %s: %s\n", __LINE__, cudaGetErrorName(error), cudaGetErrorString(error)); \
      wrong = 1;                                                                                    \
    }                                                                                               \
  } while (0)

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      std::printf("line %d: not " #condition "\n", __LINE__); \
      wrong = 1;                                              \
    }                                                         \
  } while (0)

__device__ int total;

__global__ void add(int *to, int n) { atomicAdd(to, n); }
__global__ void scale(int *to, int n) { *to *= n; }

static int *word;

static int value() {
  int now = -1;
  CHECK(cudaMemcpy(&now, word, sizeof now, cudaMemcpyDeviceToHost));
  return now;
}

static void run(cudaGraphExec_t executable, cudaStream_t stream) {
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
}

static cudaKernelNodeParams launch_of(void (*kernel)(int *, int), void **arguments) {
  cudaKernelNodeParams params = {};
  params.func = (void *)kernel;
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = arguments;
  return params;
}

static void built_by_calls(cudaStream_t stream) {
  cudaGraph_t graph, copy;
  cudaGraphExec_t executable;
  cudaGraphNode_t first, second, third, filled, found;
  int one = 1, three = 3, seven = 7, out = 0;
  void *plus_one[] = {&word, &one}, *times_three[] = {&word, &three}, *plus_seven[] = {&word, &seven};
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams fill = {};
  fill.dst = word;
  fill.elementSize = sizeof(int);
  fill.width = fill.height = 1;
  fill.value = 10;
  CHECK(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill));
  cudaKernelNodeParams params = launch_of(add, plus_one), seen;
  CHECK(cudaGraphAddKernelNode(&first, graph, &filled, 1, &params));
  params = launch_of(scale, times_three);
  CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &params));
  CHECK(cudaGraphAddMemcpyNode1D(&third, graph, &second, 1, &out, word, sizeof out, cudaMemcpyDeviceToHost));
  CHECK(cudaGraphKernelNodeGetParams(second, &seen));
  EXPECT(seen.func == (void *)scale && *(int *)seen.kernelParams[1] == 3);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(third, &type));
  EXPECT(type == cudaGraphNodeTypeMemcpy);
  size_t count = 0;
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT(count == 3);
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  run(executable, stream);
  EXPECT(out == 33);
  params = launch_of(add, plus_seven);
  CHECK(cudaGraphExecKernelNodeSetParams(executable, second, &params));
  run(executable, stream);
  EXPECT(out == 18);
  CHECK(cudaGraphClone(&copy, graph));
  CHECK(cudaGraphNodeFindInClone(&found, first, copy));
  params = launch_of(add, plus_seven);
  CHECK(cudaGraphKernelNodeSetParams(found, &params));
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(executable, copy, &info));
  EXPECT(info.result == cudaGraphExecUpdateSuccess);
  run(executable, stream);
  EXPECT(out == 51);
  CHECK(cudaGraphDestroyNode(found));
  EXPECT(cudaGraphExecUpdate(executable, copy, &info) == cudaErrorGraphExecUpdateFailure);
  EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT(cudaGetLastError() == cudaErrorGraphExecUpdateFailure);
  // A cycle is not executed, and a graph that was destroyed is none.
  CHECK(cudaGraphAddDependencies(graph, &third, &filled, nullptr, 1));
  cudaGraphExec_t none;
  EXPECT(cudaGraphInstantiate(&none, graph, 0) == cudaErrorInvalidValue);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(copy));
  CHECK(cudaGraphDestroy(graph));
  EXPECT(cudaGraphDestroy(graph) == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
}

static void count_up(void *number) { ++*(volatile int *)number; }

static void captured(cudaStream_t first) {
  cudaStream_t second;
  cudaEvent_t fork, join;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaStreamCaptureStatus status;
  static int calls = 0, on_host = 0, minus_one = -1;
  int *memory, *pinned;
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&fork));
  CHECK(cudaEventCreate(&join));
  CHECK(cudaMallocHost(&pinned, sizeof(int)));
  CHECK(cudaMemset(word, 0, sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&memory, sizeof(int), first));
  CHECK(cudaMemsetAsync(memory, 0, sizeof(int), first));
  CHECK(cudaEventRecord(fork, first));
  CHECK(cudaStreamWaitEvent(second, fork, 0));
  add<<<1, 4, 0, first>>>(memory, 2);
  add<<<1, 1, 0, second>>>(word, 5);
  CHECK(cudaLaunchHostFunc(second, count_up, &calls));
  CHECK(cudaMemcpyToSymbolAsync(total, &minus_one, sizeof(int), 0, cudaMemcpyHostToDevice, second));
  CHECK(cudaEventRecord(join, second));
  CHECK(cudaStreamWaitEvent(first, join, 0));
  CHECK(cudaMemcpyAsync(pinned, memory, sizeof(int), cudaMemcpyDeviceToHost, first));
  CHECK(cudaMemcpyAsync(&on_host, word, sizeof(int), cudaMemcpyDeviceToHost, first));
  CHECK(cudaFreeAsync(memory, first));
  CHECK(cudaStreamIsCapturing(second, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  CHECK(cudaStreamEndCapture(first, &graph));
  EXPECT(calls == 0 && value() == 0);
  // Kernels that were captured are told by the program's own names.
  cudaGraphNode_t nodes[16];
  size_t count = 16;
  int named = 0;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  for (size_t i = 0; i < count; i++) {
    cudaGraphNodeType type;
    cudaKernelNodeParams params = {};
    CHECK(cudaGraphNodeGetType(nodes[i], &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    CHECK(cudaGraphKernelNodeGetParams(nodes[i], &params));
    named += params.func == (void *)add;
  }
  EXPECT(named == 2);
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int round = 1; round <= 3; round++) {
    run(executable, second);
    EXPECT(*pinned == 8 && on_host == 5 * round && calls == round);
  }
  int symbol = 0;
  CHECK(cudaMemcpyFromSymbol(&symbol, total, sizeof symbol));
  EXPECT(symbol == -1);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  // What breaks the rules invalidates the capture.
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  add<<<1, 1, 0, first>>>(word, 1);
  CHECK(cudaGetLastError());
  EXPECT(cudaStreamSynchronize(first) == cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureInvalidated && graph == nullptr);
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  EXPECT(cudaMalloc(&memory, 64) == cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureInvalidated);
  EXPECT(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
  EXPECT(value() == 15);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaEventDestroy(fork));
  CHECK(cudaEventDestroy(join));
  CHECK(cudaStreamDestroy(second));
}

static void of_any_type(cudaStream_t stream) {
  cudaGraph_t graph, inner;
  cudaGraphExec_t executable;
  cudaGraphNode_t node, last;
  int four = 4, back = 0;
  void *plus_four[] = {&word, &four};
  CHECK(cudaMemset(word, 0, sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphCreate(&inner, 0));
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = (void *)add;
  params.kernel.gridDim = params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = plus_four;
  CHECK(cudaGraphAddNode(&node, inner, nullptr, nullptr, 0, &params));
  CHECK(cudaGraphAddChildGraphNode(&last, graph, nullptr, 0, inner));
  CHECK(cudaGraphAddNode(&last, graph, &last, nullptr, 1, &params));
  params = {};
  params.type = cudaGraphNodeTypeMemcpy;
  params.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(word, sizeof(int), sizeof(int), 1);
  params.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(&back, sizeof(int), sizeof(int), 1);
  params.memcpy.copyParams.extent = make_cudaExtent(sizeof(int), 1, 1);
  params.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaGraphAddNode(&last, graph, &last, nullptr, 1, &params));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  run(executable, stream);
  EXPECT(back == 8);
  params = {};
  params.type = cudaGraphNodeTypeConditional;
  EXPECT(cudaGraphAddNode(&last, graph, nullptr, nullptr, 0, &params) == cudaErrorNotSupported);
  EXPECT(cudaGetLastError() == cudaErrorNotSupported);
  // A user object lives as long as the graph and what was made of it.
  static int destroyed = 0;
  cudaUserObject_t object;
  CHECK(cudaUserObjectCreate(&object, &destroyed, count_up, 1, cudaUserObjectNoDestructorSync));
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(inner));
  EXPECT(destroyed == 0);
  CHECK(cudaGraphExecDestroy(executable));
  for (int wait = 0; wait < 3000 && *(volatile int *)&destroyed == 0; wait++) usleep(10000);
  EXPECT(destroyed == 1);
}

int main() {
  cudaStream_t stream;
  CHECK(cudaMalloc(&word, sizeof(int)));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  built_by_calls(stream);
  captured(stream);
  of_any_type(stream);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(word));
  std::printf(wrong ? "wrong\n" : "right\n");
  return wrong;
}
