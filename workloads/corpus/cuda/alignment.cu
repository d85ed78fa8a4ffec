// Dynamic programming along antidiagonals: the edit distance of pairs of strings, a block for each pair.
// arch: 80 90
extern "C" __global__ void edit_distance(const unsigned char *a, const unsigned char *b, int *out, int length) {
    __shared__ int lines[3][129];
    const unsigned char *s = a + blockIdx.x * length, *t = b + blockIdx.x * length;
    int i = threadIdx.x;
    for (int d = 0; d <= 2 * length; d++) {
        int j = d - i;
        if (i <= length && j >= 0 && j <= length) {
            int *now = lines[d % 3], *last = lines[(d + 2) % 3], *older = lines[(d + 1) % 3];
            int value;
            if (i == 0) value = j;
            else if (j == 0) value = i;
            else value = min(min(last[i - 1], last[i]) + 1, older[i - 1] + (s[i - 1] != t[j - 1]));
            now[i] = value;
        }
        __syncthreads();
    }
    if (i == length) out[blockIdx.x] = lines[2 * length % 3][i];
}
