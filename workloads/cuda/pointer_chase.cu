// Latency: each block's only thread follows a chain of links, every load waiting for the one before.
// A link is the byte offset of the next link, so that a hop is one load and one addition.
// Launch: one thread per block, one block per chain; `cursor` holds each chain's first offset and receives its last.
extern "C" __global__ void pointer_chase(const char *links, unsigned long long *cursor, unsigned hops) {
    unsigned long long at = cursor[blockIdx.x];
#pragma unroll 1
    for (unsigned hop = 0; hop < hops; hop += 4) {
#pragma unroll
        for (unsigned step = 0; step < 4; ++step) {
            at = *reinterpret_cast<const unsigned long long *>(links + at);
        }
    }
    cursor[blockIdx.x] = at;
}
