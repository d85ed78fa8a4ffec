// A kernel that launches another from the device.
// arch: 80
// flags: -rdc=true
__global__ void child(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1;
}
extern "C" __global__ void child_launch(int *data, int n) {
    if (threadIdx.x == 0 && data[blockIdx.x] > 0) child<<<(n + 127) / 128, 128>>>(data, n);
}
