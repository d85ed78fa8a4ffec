// Persistent blocks that fetch work from a queue until it is empty.
// arch: 80 90
extern "C" __global__ void work_queue(const unsigned *lengths, unsigned *out, unsigned *head, unsigned jobs) {
    __shared__ unsigned job;
    while (true) {
        if (threadIdx.x == 0) job = atomicAdd(head, 1u);
        __syncthreads();
        unsigned mine = job;
        __syncthreads();
        if (mine >= jobs) return;
        unsigned sum = 0;
        for (unsigned k = threadIdx.x; k < lengths[mine]; k += blockDim.x) sum += k * k;
        atomicAdd(&out[mine], sum);
    }
}
