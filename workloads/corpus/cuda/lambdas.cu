// Functors and device lambdas through a generic launcher.
// arch: 80
// flags: --extended-lambda
template <typename F>
__device__ void for_each(int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}
template <typename A, typename B>
struct Compose {
    A a;
    B b;
    __device__ int operator()(int x) const { return a(b(x)); }
};
extern "C" __global__ void lambdas(const int *in, int *out, int n, int k) {
    auto triple = [](int x) { return 3 * x; };
    auto shift = [k](int x) { return x + k; };
    Compose<decltype(triple), decltype(shift)> both{triple, shift};
    for_each(n, [=](int i) { out[i] = both(in[i]) ^ i; });
}
