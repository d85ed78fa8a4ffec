// Prefix sums of the whole grid in one pass: each block takes a number, publishes its sum, and looks back over the
// states of the blocks before it.
// arch: 80 90
constexpr unsigned THREADS = 128, AGGREGATE = 1u << 30, PREFIX = 2u << 30, VALUE = (1u << 30) - 1;
extern "C" __global__ void scan_lookback(const unsigned *in, unsigned *out, volatile unsigned *states, unsigned *tickets, unsigned n) {
    __shared__ unsigned warp_sums[THREADS / 32], tile, before;
    if (threadIdx.x == 0) tile = atomicAdd(tickets, 1);
    __syncthreads();
    unsigned i = tile * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned value = i < n ? in[i] : 0, sum = value;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        unsigned left = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += left;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    unsigned total = 0;
    for (unsigned w = 0; w < THREADS / 32; w++) {
        if (w < warp) sum += warp_sums[w];
        total += warp_sums[w];
    }
    if (threadIdx.x == 0) {
        unsigned prefix = 0;
        if (tile > 0) {
            states[tile] = AGGREGATE | total;
            for (unsigned at = tile - 1;; at--) {
                unsigned state;
                do state = states[at];
                while (state == 0);
                prefix += state & VALUE;
                if (state & PREFIX) break;
            }
        }
        __threadfence();
        states[tile] = PREFIX | (prefix + total);
        before = prefix;
    }
    __syncthreads();
    if (i < n) out[i] = before + sum;
}
