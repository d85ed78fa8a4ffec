// A row for each thread, doubles.
// arch: 80
#include "base.cuh"
extern "C" __global__ void clang_matrix_vector(const double *matrix, const double *x, double *y, int rows, int columns) {
    int row = BLOCK * THREADS + THREAD;
    if (row >= rows) return;
    double sum = 0;
    for (int c = 0; c < columns; c++) sum += matrix[row * columns + c] * x[c];
    y[row] = sum;
}
