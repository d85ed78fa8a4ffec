// A client of the driver API in C: adds two vectors on the device, once through symbols that the linker bound, once
// through functions that cuGetProcAddress found. Built with or without linking (-DDLOPEN). Prints "ok" and exits 0.
//
// The declarations are written out here, so that it builds without a CUDA toolkit.

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

// Name, parameters: each function that is used.
#define FUNCTIONS(F) \
    F(cuInit, (unsigned)) \
    F(cuDriverGetVersion, (int *)) \
    F(cuGetErrorName, (CUresult, const char **)) \
    F(cuDeviceGetCount, (int *)) \
    F(cuDeviceGet, (CUdevice *, int)) \
    F(cuDeviceGetName, (char *, int, CUdevice)) \
    F(cuDeviceGetAttribute, (int *, int, CUdevice)) \
    F(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice)) \
    F(cuCtxDestroy_v2, (CUcontext)) \
    F(cuCtxSynchronize, (void)) \
    F(cuModuleLoadData, (CUmodule *, const void *)) \
    F(cuModuleUnload, (CUmodule)) \
    F(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
    F(cuMemFree_v2, (CUdeviceptr)) \
    F(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
    F(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t)) \
    F(cuStreamCreate, (CUstream *, unsigned)) \
    F(cuStreamSynchronize, (CUstream)) \
    F(cuStreamDestroy_v2, (CUstream)) \
    F(cuEventCreate, (CUevent *, unsigned)) \
    F(cuEventRecord, (CUevent, CUstream)) \
    F(cuEventSynchronize, (CUevent)) \
    F(cuEventElapsedTime, (float *, CUevent, CUevent)) \
    F(cuEventDestroy_v2, (CUevent)) \
    F(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
                       void **, void **)) \
    F(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))

#ifdef DLOPEN
#define DECLARE(name, parameters) static CUresult(*name) parameters;
FUNCTIONS(DECLARE)

static void bind_all(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define BIND(name, parameters) \
    *(void **)&name = dlsym(library, #name); \
    if (!name) { \
        fprintf(stderr, "there is no %s\n", #name); \
        exit(1); \
    }
    FUNCTIONS(BIND)
}
#else
#define DECLARE(name, parameters) extern CUresult name parameters;
FUNCTIONS(DECLARE)

static void bind_all(void) {}
#endif

static void check(CUresult code, const char *call) {
    if (code != 0) {
        const char *name = "an unknown code";
        cuGetErrorName(code, &name);
        fprintf(stderr, "%s: %s\n", call, name);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static const char *PTX =
    ".version 8.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p;\n"
    "    .reg .f32 %f<4>;\n"
    "    .reg .b32 %r<6>;\n"
    "    .reg .b64 %rd<8>;\n"
    "    ld.param.u64 %rd1, [a];\n"
    "    ld.param.u64 %rd2, [b];\n"
    "    ld.param.u64 %rd3, [c];\n"
    "    ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, %ctaid.x;\n"
    "    mov.u32 %r3, %ntid.x;\n"
    "    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "    setp.ge.u32 %p, %r5, %r1;\n"
    "    @%p bra $end;\n"
    "    mul.wide.u32 %rd4, %r5, 4;\n"
    "    add.u64 %rd5, %rd1, %rd4;\n"
    "    add.u64 %rd6, %rd2, %rd4;\n"
    "    add.u64 %rd7, %rd3, %rd4;\n"
    "    ld.global.f32 %f1, [%rd5];\n"
    "    ld.global.f32 %f2, [%rd6];\n"
    "    add.f32 %f3, %f1, %f2;\n"
    "    st.global.f32 [%rd7], %f3;\n"
    "$end:\n"
    "    ret;\n"
    "}\n";

typedef CUresult (*Launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                           void **, void **);

static void add(Launch launch, CUfunction function, CUstream stream, unsigned n) {
    size_t bytes = n * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
    for (unsigned i = 0; i < n; i++) {
        a[i] = (float)i;
        b[i] = 0.5f * (float)i;
    }
    memset(c, 0, bytes);
    CUdeviceptr on_device[3];
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemAlloc_v2(&on_device[i], bytes));
    }
    CHECK(cuMemcpyHtoD_v2(on_device[0], a, bytes));
    CHECK(cuMemcpyHtoD_v2(on_device[1], b, bytes));
    void *parameters[] = {&on_device[0], &on_device[1], &on_device[2], &n};
    CHECK(launch(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(c, on_device[2], bytes));
    for (unsigned i = 0; i < n; i++) {
        if (c[i] != a[i] + b[i]) {
            fprintf(stderr, "element %u is %g\n", i, (double)c[i]);
            exit(1);
        }
    }
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemFree_v2(on_device[i]));
    }
    free(a);
    free(b);
    free(c);
}

int main(void) {
    bind_all();
    int version, count, warp;
    CUdevice device;
    char name[100];
    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuDeviceGetCount(&count));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDeviceGetAttribute(&warp, 10, device));
    printf("%d device, %s, warps of %d, version %d\n", count, name, warp, version);

    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUevent start, end;
    float milliseconds;
    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuModuleLoadData(&module, PTX));
    CHECK(cuModuleGetFunction(&function, module, "add"));
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&end, 0));
    CHECK(cuEventRecord(start, stream));
    add(cuLaunchKernel, function, stream, 10000);
    CHECK(cuEventRecord(end, stream));
    CHECK(cuEventSynchronize(end));
    CHECK(cuEventElapsedTime(&milliseconds, start, end));
    if (!(milliseconds > 0)) {
        fprintf(stderr, "the work took %g ms\n", (double)milliseconds);
        return 1;
    }

    void *found = NULL;
    int status = -1;
    CHECK(cuGetProcAddress_v2("cuLaunchKernel", &found, version, 2, &status));
    Launch launch;
    *(void **)&launch = found;
    add(launch, function, NULL, 1000);
    CHECK(cuCtxSynchronize());

    CHECK(cuEventDestroy_v2(start));
    CHECK(cuEventDestroy_v2(end));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuModuleUnload(module));
    CHECK(cuCtxDestroy_v2(context));
    puts("ok");
    return 0;
}
