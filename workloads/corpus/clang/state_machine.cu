// A switch over bytes: what a lexer does.
// arch: 80
#include "base.cuh"
extern "C" __global__ void clang_state_machine(const u8 *text, int *out, int length, int n) {
    int i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    int state = 0, value = 0, total = 0;
    for (int k = 0; k < length; k++) {
        u8 c = text[i * length + k];
        switch (state) {
            case 0: state = c < 85 ? 1 : c < 170 ? 2 : 3; break;
            case 1: value = value * 3 + c, state = c & 1 ? 4 : 0; break;
            case 2: value ^= c << 4, state = c & 2 ? 5 : 1; break;
            case 3: value -= c, state = c & 4 ? 0 : 2; break;
            case 4: total += value, value = 0, state = 3; break;
            case 5: total ^= value, state = (c & 3) + 1; break;
        }
    }
    out[i] = total + value;
}
