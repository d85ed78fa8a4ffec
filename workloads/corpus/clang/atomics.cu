// Atomics through the compiler's builtins: addition, exclusive or, compare and exchange.
// arch: 80
#include "base.cuh"
extern "C" __global__ void clang_atomics(const unsigned *in, unsigned *bins, unsigned *parity, unsigned *largest, int n) {
    int i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    __nvvm_atom_add_gen_i(reinterpret_cast<int *>(bins + in[i] % 8), 1);
    __nvvm_atom_xor_gen_i(reinterpret_cast<int *>(parity), static_cast<int>(in[i]));
    unsigned seen = *reinterpret_cast<volatile unsigned *>(largest);
    while (seen < in[i]) {
        unsigned before = __nvvm_atom_cas_gen_i(reinterpret_cast<int *>(largest), seen, in[i]);
        if (before == seen) break;
        seen = before;
    }
}
