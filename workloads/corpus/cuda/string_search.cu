// Searching bytes: occurrences of a pattern in constant memory, and a count of words and lines.
// arch: 80
__constant__ unsigned char pattern[4] = {'a', 'b', 'a', 'c'};
extern "C" __global__ void find_pattern(const unsigned char *text, unsigned *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool match = i + 4 <= n;
    for (int k = 0; match && k < 4; k++) match = text[i + k] == pattern[k];
    int found = __syncthreads_count(match);
    if (threadIdx.x == 0) atomicAdd(count, found);
}
extern "C" __global__ void count_text(const char *text, unsigned *lines, unsigned *words, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bool blank = text[i] == ' ' || text[i] == '\n', before = i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n';
    if (text[i] == '\n') atomicAdd(lines, 1);
    if (!blank && before) atomicInc(words, ~0u);
}
