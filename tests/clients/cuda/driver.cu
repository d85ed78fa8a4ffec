// A client of the driver API that loads its kernels from a file of PTX: it asks what the device is, adds vectors,
// multiplies matrices with dynamic shared memory, turns an image through a texture, links PTX that it holds as text, and
// hands contexts from thread to thread. Prints "right" and exits 0.

#include <cuda.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

static int wrong = 0;

#define CHECK(call)                                                              \
  do {                                                                           \
    CUresult code = (call);                                                      \
    const char *name = "an unknown code";                                        \
    if (code != CUDA_SUCCESS) {                                                  \
      cuGetErrorName(code, &name);                                               \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, name);  \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

#define EXPECT(condition)                                                         \
  do {                                                                            \
    if (!(condition)) {                                                           \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      wrong = 1;                                                                  \
    }                                                                             \
  } while (0)

static const char *TIMES = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .func (.param .b32 result) times(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  mul.lo.s32 %r2, %r1, 7;
  st.param.b32 [result], %r2;
  ret;
}
)";

static CUdeviceptr to_device(const void *from, size_t bytes) {
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, bytes));
  CHECK(cuMemcpyHtoD(memory, from, bytes));
  return memory;
}

static void what_the_device_is(CUdevice device) {
  char name[64];
  size_t bytes;
  int major, minor, warp, threads, sms;
  CHECK(cuDeviceGetName(name, sizeof name, device));
  CHECK(cuDeviceTotalMem(&bytes, device));
  CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  CHECK(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
  CHECK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device));
  CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  EXPECT(std::strlen(name) > 0 && bytes > 0 && major >= 8 && minor >= 0 && warp == 32 && threads == 1024 && sms > 0);
  EXPECT(cuDeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE);
}

static void vectors(CUmodule module) {
  int n = 50000;
  std::vector<float> a(n), b(n), sum(n);
  for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
  size_t bytes = n * sizeof(float);
  CUdeviceptr on_a = to_device(a.data(), bytes), on_b = to_device(b.data(), bytes), on_sum;
  CHECK(cuMemAlloc(&on_sum, bytes));
  CUfunction add;
  CHECK(cuModuleGetFunction(&add, module, "add"));
  void *parameters[] = {&on_a, &on_b, &on_sum, &n};
  CHECK(cuLaunchKernel(add, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuMemcpyDtoH(sum.data(), on_sum, bytes));
  for (int i = 0; i < n; i++) EXPECT(sum[i] == 3.0f * i);
  for (CUdeviceptr memory : {on_a, on_b, on_sum}) CHECK(cuMemFree(memory));
}

static void matrices(CUmodule module) {
  int width = 64, tile = 16;
  std::vector<float> a(width * width), b(width * width), c(width * width);
  for (int i = 0; i < width * width; i++) a[i] = i % 7, b[i] = i % 5;
  size_t bytes = a.size() * sizeof(float);
  CUdeviceptr on_a = to_device(a.data(), bytes), on_b = to_device(b.data(), bytes), on_c = to_device(c.data(), bytes);
  CUfunction multiply;
  CHECK(cuModuleGetFunction(&multiply, module, "multiply"));
  // Parameters in a buffer, as the samples of old drivers pass them.
  struct {
    CUdeviceptr a, b, c;
    int width;
  } packed = {on_a, on_b, on_c, width};
  size_t packed_bytes = sizeof packed;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes, CU_LAUNCH_PARAM_END};
  CUevent start, end;
  CHECK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(start, nullptr));
  unsigned shared = 2 * tile * tile * sizeof(float);
  CHECK(cuLaunchKernel(multiply, width / tile, width / tile, 1, tile, tile, 1, shared, nullptr, nullptr, extra));
  CHECK(cuEventRecord(end, nullptr));
  CHECK(cuEventSynchronize(end));
  float ms = -1;
  CHECK(cuEventElapsedTime(&ms, start, end));
  EXPECT(ms >= 0);
  CHECK(cuMemcpyDtoH(c.data(), on_c, bytes));
  for (int row = 0; row < width; row++)
    for (int column = 0; column < width; column++) {
      float sum = 0;
      for (int k = 0; k < width; k++) sum += a[row * width + k] * b[k * width + column];
      EXPECT(c[row * width + column] == sum);
    }
  CHECK(cuEventDestroy(start));
  CHECK(cuEventDestroy(end));
  for (CUdeviceptr memory : {on_a, on_b, on_c}) CHECK(cuMemFree(memory));
}

static void image(CUmodule module) {
  const int width = 40;
  std::vector<float> texels(width * width), turned(width * width);
  for (int i = 0; i < width * width; i++) texels[i] = i;
  CUDA_ARRAY_DESCRIPTOR shape = {};
  shape.Width = shape.Height = width;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  CUarray array;
  CHECK(cuArrayCreate(&array, &shape));
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = texels.data();
  copy.srcPitch = copy.WidthInBytes = width * sizeof(float);
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.Height = width;
  CHECK(cuMemcpy2D(&copy));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC how = {};
  how.addressMode[0] = how.addressMode[1] = CU_TR_ADDRESS_MODE_WRAP;
  how.filterMode = CU_TR_FILTER_MODE_POINT;
  how.flags = CU_TRSF_NORMALIZED_COORDINATES;
  CUtexObject texture;
  CHECK(cuTexObjectCreate(&texture, &resource, &how, nullptr));
  CUdeviceptr out = to_device(turned.data(), turned.size() * sizeof(float));
  CUfunction turn;
  CHECK(cuModuleGetFunction(&turn, module, "turn"));
  int n = width;
  void *parameters[] = {&texture, &out, &n};
  CHECK(cuLaunchKernel(turn, 5, 5, 1, 8, 8, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuMemcpyDtoH(turned.data(), out, turned.size() * sizeof(float)));
  for (int y = 0; y < width; y++)
    for (int x = 0; x < width; x++) EXPECT(turned[y * width + x] == texels[x * width + width - 1 - y]);
  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuArrayDestroy(array));
  CHECK(cuMemFree(out));
}

static void linked(const char *kernels) {
  char log[1024] = {}, errors[1024] = {};
  CUjit_option options[] = {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
  void *values[] = {nullptr, log, (void *)sizeof log, errors, (void *)sizeof errors, (void *)1};
  CUlinkState link;
  CHECK(cuLinkCreate(6, options, values, &link));
  CHECK(cuLinkAddFile(link, CU_JIT_INPUT_PTX, kernels, 0, nullptr, nullptr));
  CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)TIMES, std::strlen(TIMES) + 1, "times", 0, nullptr, nullptr));
  void *image;
  size_t bytes;
  CHECK(cuLinkComplete(link, &image, &bytes));
  CUmodule module;
  CHECK(cuModuleLoadData(&module, image));
  CHECK(cuLinkDestroy(link));
  vectors(module);
  matrices(module);
  ::image(module);
  int numbers[32];
  for (int i = 0; i < 32; i++) numbers[i] = i;
  CUdeviceptr memory = to_device(numbers, sizeof numbers);
  CUfunction scale;
  CHECK(cuModuleGetFunction(&scale, module, "scale"));
  void *parameters[] = {&memory};
  CHECK(cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
  for (int i = 0; i < 32; i++) EXPECT(numbers[i] == 7 * i);
  CHECK(cuMemFree(memory));
  CHECK(cuModuleUnload(module));
}

// Each thread has a context of its own, which others make current in turn to count in its module's variable.
static void contexts(CUdevice device, const char *kernels) {
  const int threads = 4;
  CUcontext own[threads];
  CUmodule modules[threads];
  for (int i = 0; i < threads; i++) {
    CHECK(cuCtxCreate(&own[i], nullptr, 0, device));
    CUlinkState link;
    CHECK(cuLinkCreate(0, nullptr, nullptr, &link));
    CHECK(cuLinkAddFile(link, CU_JIT_INPUT_PTX, kernels, 0, nullptr, nullptr));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)TIMES, std::strlen(TIMES) + 1, "times", 0, nullptr, nullptr));
    void *image;
    size_t bytes;
    CHECK(cuLinkComplete(link, &image, &bytes));
    CHECK(cuModuleLoadData(&modules[i], image));
    CHECK(cuLinkDestroy(link));
    CUcontext popped;
    CHECK(cuCtxPopCurrent(&popped));
    EXPECT(popped == own[i]);
  }
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; thread++)
    running.emplace_back([&, thread] {
      for (int turn = 0; turn < threads; turn++) {
        int at = (thread + turn) % threads;
        CUfunction count;
        CUcontext popped;
        CHECK(cuCtxPushCurrent(own[at]));
        CHECK(cuModuleGetFunction(&count, modules[at], "count"));
        CHECK(cuLaunchKernel(count, 2, 1, 1, 16, 1, 1, 0, nullptr, nullptr, nullptr));
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxPopCurrent(&popped));
      }
    });
  for (std::thread &thread : running) thread.join();
  for (int i = 0; i < threads; i++) {
    CUdeviceptr calls;
    size_t bytes;
    int value = 0;
    CHECK(cuCtxPushCurrent(own[i]));
    CHECK(cuModuleGetGlobal(&calls, &bytes, modules[i], "calls"));
    CHECK(cuMemcpyDtoH(&value, calls, sizeof value));
    EXPECT(bytes == sizeof value && value == 32 * threads);
    CHECK(cuCtxDestroy(own[i]));
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s KERNELS.ptx\n", argv[0]);
    return 2;
  }
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  what_the_device_is(device);
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  // A call to a function that is defined nowhere is found when the file is loaded.
  CUmodule module;
  EXPECT(cuModuleLoad(&module, argv[1]) != CUDA_SUCCESS);
  EXPECT(cuModuleLoad(&module, "/nonexistent.ptx") == CUDA_ERROR_FILE_NOT_FOUND);
  linked(argv[1]);
  contexts(device, argv[1]);
  CHECK(cuDevicePrimaryCtxRelease(device));
  std::printf(wrong ? "wrong\n" : "right\n");
  return wrong;
}
