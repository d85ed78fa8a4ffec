// What array libraries generate at run time: a fused expression over a flattened index, with strides in an array.
// arch: 75 80 90 120
typedef long long i64;
template <typename T>
struct Indexed {
    T *data;
    i64 shape[3], strides[3];
    __device__ T &operator[](i64 i) const {
        i64 offset = 0;
        for (int d = 2; d >= 0; d--) {
            offset += i % shape[d] * strides[d];
            i /= shape[d];
        }
        return data[offset];
    }
};
extern "C" __global__ void fused_elementwise(const Indexed<const float> a, const Indexed<const float> b, Indexed<float> out, i64 n) {
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += static_cast<i64>(gridDim.x) * blockDim.x)
        out[i] = a[i] * b[i] + (a[i] > 0.0f ? b[i] : -b[i]);
}
