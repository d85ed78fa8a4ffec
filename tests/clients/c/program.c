// A driver-API program in C, linked with libcuda: a kernel in PTX, two streams, events, and the errors of wrong use.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// The part of the driver API that is used here, declared as its documentation says, so that no toolkit is needed.
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct stream *CUstream;
typedef struct event *CUevent;

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int length, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **extra);
CUresult cuGetErrorName(CUresult error, const char **name);

#define COUNT 100000

static const char PTX[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry square_add(.param .u64 values, .param .u32 n, .param .u32 more) {\n"
    "  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<5>;\n"
    "  ld.param.u64 %rd1, [values]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [more];\n"
    "  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    "  mad.lo.s32 %r6, %r3, %r4, %r5;\n"
    "  setp.ge.u32 %p1, %r6, %r1; @%p1 bra DONE;\n"
    "  cvta.to.global.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd2, %rd3;\n"
    "  ld.global.u32 %r7, [%rd4]; mad.lo.u32 %r8, %r7, %r7, %r2; st.global.u32 [%rd4], %r8;\n"
    "DONE: ret;\n}\n";

static void check(CUresult result, const char *what) {
    const char *name = "?";
    if (result == 0) return;
    cuGetErrorName(result, &name);
    fprintf(stderr, "%s: %s (%d)\n", what, name, result);
    exit(1);
}
#define CHECK(call) check(call, #call)

static void expect(CUresult result, CUresult wanted, const char *what) {
    if (result == wanted) return;
    fprintf(stderr, "%s gave %d, not %d\n", what, result, wanted);
    exit(1);
}
#define EXPECT(call, wanted) expect(call, wanted, #call)

int main(void) {
    int count, version;
    char name[64];
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr pointer;
    CUstream first, second;
    CUevent start, handover, end;
    float milliseconds;

    EXPECT(cuDeviceGetCount(&count), 3 /* CUDA_ERROR_NOT_INITIALIZED */);
    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuDeviceGetCount(&count));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    EXPECT(cuCtxSynchronize(), 201 /* CUDA_ERROR_INVALID_CONTEXT */);
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, PTX));
    EXPECT(cuModuleGetFunction(&function, module, "no_such_kernel"), 500 /* CUDA_ERROR_NOT_FOUND */);
    CHECK(cuModuleGetFunction(&function, module, "square_add"));

    uint32_t *values = malloc(COUNT * sizeof *values);
    for (uint32_t i = 0; i < COUNT; ++i) values[i] = i;
    CHECK(cuMemAlloc_v2(&pointer, COUNT * sizeof *values));
    EXPECT(cuMemAlloc_v2(NULL, 16), 1 /* CUDA_ERROR_INVALID_VALUE */);
    CHECK(cuMemcpyHtoD_v2(pointer, values, COUNT * sizeof *values));
    CHECK(cuStreamCreate(&first, 1));
    CHECK(cuStreamCreate(&second, 1));
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&handover, 0));
    CHECK(cuEventCreate(&end, 0));

    uint32_t n = COUNT, more[2] = {5, 7};
    CHECK(cuEventRecord(start, first));
    void *params[] = {&pointer, &n, &more[0]};
    CHECK(cuLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, first, params, NULL));
    CHECK(cuEventRecord(handover, first));
    CHECK(cuStreamWaitEvent(second, handover, 0));
    // The second launch brings its parameters as one buffer.
    struct { CUdeviceptr pointer; uint32_t n, more; } packed = {pointer, n, more[1]};
    size_t size = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, (void *)0};
    CHECK(cuLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, second, NULL, extra));
    CHECK(cuEventRecord(end, second));
    CHECK(cuStreamSynchronize(second));
    CHECK(cuEventElapsedTime(&milliseconds, start, end));
    CHECK(cuMemcpyDtoH_v2(values, pointer, COUNT * sizeof *values));
    for (uint32_t i = 0; i < COUNT; ++i) {
        uint32_t once = i * i + more[0], twice = once * once + more[1];
        if (values[i] != twice) {
            fprintf(stderr, "value %u is %u, not %u\n", i, values[i], twice);
            return 1;
        }
    }
    if (!(milliseconds > 0)) {
        fprintf(stderr, "two launches took %f ms\n", milliseconds);
        return 1;
    }
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 2000, 1, 1, 0, first, params, NULL), 1 /* CUDA_ERROR_INVALID_VALUE */);
    CHECK(cuEventDestroy_v2(start));
    CHECK(cuEventDestroy_v2(handover));
    CHECK(cuEventDestroy_v2(end));
    CHECK(cuStreamDestroy_v2(first));
    CHECK(cuStreamDestroy_v2(second));
    CHECK(cuMemFree_v2(pointer));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease_v2(device));
    free(values);
    printf("%d values right on %s, driver %d\n", COUNT, name, version);
    return 0;
}
