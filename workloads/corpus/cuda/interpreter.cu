// A stack machine: a dense switch, which becomes an indirect branch.
// arch: 80 90
extern "C" __global__ void interpreter(const unsigned char *code, const int *inputs, int *out, int length, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int stack[8] = {}, top = 0, a = inputs[i];
    for (int pc = 0; pc < length; pc++) {
        switch (code[pc]) {
            case 0: stack[top & 7] = a, top++; break;
            case 1: a += stack[--top & 7]; break;
            case 2: a -= stack[--top & 7]; break;
            case 3: a *= 3; break;
            case 4: a ^= stack[(top - 1) & 7]; break;
            case 5: a = a << 5 | static_cast<unsigned>(a) >> 27; break;
            case 6: a = max(a, stack[(top + 6) & 7]); break;
            case 7: if (a & 1) pc++; break;
            case 8: a = __popc(a); break;
            case 9: a = -a; break;
            default: a += code[pc];
        }
    }
    out[i] = a;
}
