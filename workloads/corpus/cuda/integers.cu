// Integer division and remainder in 32 and 64 bits, modular powers, 128-bit products.
// arch: 75 80
extern "C" __global__ void divisions(const int *a, const int *b, const long long *c, const long long *d, int *out, long long *wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = a[i] / b[i] + a[i] % b[i] * 3 + a[i] / 7;
    wide[i] = c[i] / d[i] + (c[i] % d[i] << 1) + static_cast<unsigned long long>(c[i]) / 1000003u;
}
extern "C" __global__ void modular_power(const unsigned long long *base, unsigned long long *out, unsigned long long exponent, unsigned long long modulus, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long result = 1, square = base[i] % modulus;
    for (unsigned long long e = exponent; e; e >>= 1) {
        if (e & 1) result = static_cast<unsigned __int128>(result) * square % modulus;
        square = static_cast<unsigned __int128>(square) * square % modulus;
    }
    out[i] = result;
}
extern "C" __global__ void wide_multiply(const unsigned long long *a, const unsigned long long *b, unsigned long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned __int128 product = static_cast<unsigned __int128>(a[i]) * b[i] + a[i];
    out[2 * i] = static_cast<unsigned long long>(product);
    out[2 * i + 1] = static_cast<unsigned long long>(product >> 64);
}
