// Vector types of every width, reordered and converted.
// arch: 75 80 100
extern "C" __global__ void vector_types(const uchar4 *bytes, const short2 *shorts, const float4 *floats, const double2 *doubles, int4 *out, long long *sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 b = bytes[i];
    short2 s = shorts[i];
    float4 f = floats[i];
    double2 d = doubles[i];
    out[i] = make_int4(b.x + s.y, b.y - s.x, b.z * static_cast<int>(f.x), b.w ^ static_cast<int>(f.w));
    sums[i] = __double2ll_rz(d.x) + __double2ll_rn(d.y) + __float2ll_rd(f.y) + __float2ll_ru(f.z);
}
