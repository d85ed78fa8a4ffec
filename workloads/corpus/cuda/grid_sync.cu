// A barrier across the whole grid: it cannot be cut.
// arch: 80
#include <cooperative_groups.h>
extern "C" __global__ void grid_sync(float *data, int n, int rounds) {
    auto grid = cooperative_groups::this_grid();
    for (int r = 0; r < rounds; r++) {
        for (int i = grid.thread_rank(); i + 1 < n; i += grid.size()) data[i + (r & 1 ? n : 0)] += 0.5f * data[i + 1 + (r & 1 ? 0 : n)];
        grid.sync();
    }
}
