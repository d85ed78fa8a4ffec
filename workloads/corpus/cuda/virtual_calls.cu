// Virtual functions: objects made on the device, called through tables.
// arch: 80 90
struct Shape {
    __device__ virtual float area() const = 0;
};
struct Square : Shape {
    float edge;
    __device__ explicit Square(float e) : edge(e) {}
    __device__ float area() const override { return edge * edge; }
};
struct Circle : Shape {
    float radius;
    __device__ explicit Circle(float r) : radius(r) {}
    __device__ float area() const override { return 3.0f * radius * radius; }
};
extern "C" __global__ void virtual_calls(const float *sizes, float *areas, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Square square(sizes[i]);
    Circle circle(sizes[i]);
    const Shape *shapes[2] = {&square, &circle};
    areas[i] = shapes[static_cast<int>(sizes[i] * 16) & 1]->area();
}
