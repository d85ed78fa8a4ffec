// An open-addressing hash table with compare-and-swap, and a look-up.
// arch: 75 80 90
constexpr unsigned long long EMPTY = ~0ull;
__device__ unsigned spread(unsigned k) {
    k ^= k >> 16;
    k *= 0x85ebca6bu;
    k ^= k >> 13;
    k *= 0xc2b2ae35u;
    return k ^ k >> 16;
}
extern "C" __global__ void hash_insert(unsigned long long *table, unsigned mask, const unsigned *keys, const unsigned *values, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long entry = static_cast<unsigned long long>(keys[i]) << 32 | values[i];
    unsigned slot = spread(keys[i]) & mask;
    while (atomicCAS(&table[slot], EMPTY, entry) != EMPTY) slot = (slot + 1) & mask;
}
extern "C" __global__ void hash_find(const unsigned long long *table, unsigned mask, const unsigned *keys, unsigned *values, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (unsigned slot = spread(keys[i]) & mask;; slot = (slot + 1) & mask) {
        unsigned long long entry = table[slot];
        if (entry == EMPTY || entry >> 32 == keys[i]) {
            values[i] = entry == EMPTY ? ~0u : static_cast<unsigned>(entry);
            return;
        }
    }
}
