// Texture and surface objects: filtered reads in one and two dimensions, layers, gathers, writes.
// arch: 75 80 90
extern "C" __global__ void texture_rotate(cudaTextureObject_t image, float *out, int width, int height, float sine, float cosine) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float u = x * cosine - y * sine, v = x * sine + y * cosine;
    float4 four = tex2Dgather<float4>(image, u, v, 0);
    out[y * width + x] = tex2D<float>(image, u + 0.5f, v + 0.5f) + four.x + tex2DLod<float>(image, u, v, 1.0f);
}
extern "C" __global__ void surface_invert(cudaSurfaceObject_t image, cudaTextureObject_t line, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= width || y >= height) return;
    uchar4 p;
    surf2Dread(&p, image, x * 4, y, cudaBoundaryModeClamp);
    int level = tex1Dfetch<int>(line, p.x);
    surf2Dwrite(make_uchar4(255 - p.x, 255 - p.y, 255 - p.z, level), image, x * 4, y, cudaBoundaryModeZero);
}
extern "C" __global__ void volume_march(cudaTextureObject_t volume, float *out, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int s = 0; s < steps; s++) sum += tex3D<float>(volume, i * 0.1f, s * 0.5f, 1.f) + tex2DLayered<float>(volume, 0.f, 0.f, s);
    out[i] = sum;
}
