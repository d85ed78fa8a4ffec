// Memory from the device's heap: a list is built and folded.
// arch: 80 90
struct Node {
    int value;
    Node *next;
};
extern "C" __global__ void device_heap(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Node *head = nullptr;
    for (int k = 0; k < i % 5 + 1; k++) {
        Node *node = static_cast<Node *>(malloc(sizeof(Node)));
        if (!node) break;
        *node = {k + i, head};
        head = node;
    }
    int sum = 0;
    while (head) {
        sum += head->value;
        Node *next = head->next;
        free(head);
        head = next;
    }
    out[i] = sum;
}
