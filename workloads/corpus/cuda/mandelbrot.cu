// Escape times: a loop whose length differs from lane to lane.
// arch: 75 80 120
extern "C" __global__ void mandelbrot(unsigned *out, int width, int height, double x0, double y0, double step, unsigned limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    double cx = x0 + px * step, cy = y0 + py * step, x = 0, y = 0;
    unsigned i = 0;
    while (i < limit && x * x + y * y <= 4.0) {
        double t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        i++;
    }
    out[py * width + px] = i;
}
