// Tensor cores through the nvcuda::wmma interface: half inputs, float sums; one warp per 16 by 16 tile.
// arch: 75 80 90 100
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void gemm_wmma(const half *a, const half *b, float *c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int t = 0; t < k; t += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + t, k);
        wmma::load_matrix_sync(fb, b + t * n + blockIdx.x * 16, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, fc, n, wmma::mem_row_major);
}
extern "C" __global__ void gemm_wmma_s8(const signed char *a, const signed char *b, int *c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    wmma::fill_fragment(fc, 0);
    for (int t = 0; t < k; t += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + t, k);
        wmma::load_matrix_sync(fb, b + blockIdx.x * 16 * k + t, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, fc, n, wmma::mem_row_major);
}
