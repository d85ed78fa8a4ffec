// Filters on images of bytes: grey from colour, Sobel, a median of nine, a box blur with a running sum.
// arch: 80 90
extern "C" __global__ void grey(const uchar4 *in, unsigned char *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = in[i];
    out[i] = (77 * p.x + 150 * p.y + 29 * p.z) >> 8;
}
extern "C" __global__ void sobel(const unsigned char *in, unsigned char *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
    const unsigned char *p = in + y * width + x;
    int gx = p[1 - width] + 2 * p[1] + p[1 + width] - p[-1 - width] - 2 * p[-1] - p[-1 + width];
    int gy = p[width - 1] + 2 * p[width] + p[width + 1] - p[-width - 1] - 2 * p[-width] - p[-width + 1];
    out[y * width + x] = min(abs(gx) + abs(gy), 255);
}
__device__ void order(unsigned char &a, unsigned char &b) {
    unsigned char low = min(a, b), high = max(a, b);
    a = low;
    b = high;
}
extern "C" __global__ void median3(const unsigned char *in, unsigned char *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1) return;
    unsigned char v[9];
    for (int i = 0; i < 9; i++) v[i] = in[(y + i / 3 - 1) * width + x + i % 3 - 1];
    for (int pass = 0; pass < 5; pass++)
        for (int i = 0; i < 8 - pass; i++) order(v[i], v[i + 1]);
    out[y * width + x] = v[4];
}
extern "C" __global__ void box_blur_columns(const unsigned short *in, unsigned short *out, int width, int height, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width) return;
    unsigned sum = 0;
    for (int y = -radius; y <= radius; y++) sum += in[min(max(y, 0), height - 1) * width + x];
    for (int y = 0; y < height; y++) {
        out[y * width + x] = sum / (2 * radius + 1);
        sum += in[min(y + radius + 1, height - 1) * width + x] - in[max(y - radius, 0) * width + x];
    }
}
