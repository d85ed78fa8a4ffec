"""Trains a small network with numba kernels and with NumPy, side by side; the losses must be equal at every step.

Two layers (16, 32 and 3 wide) learn to tell three clusters apart. Every sum is made in the same order on both sides, in
double precision, so the losses agree to rounding.
"""

import math
import sys

import numpy as np
from numba import cuda

STEPS = 300
RATE = 0.5


@cuda.jit
def affine(x, w, b, out, squash):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = b[column]
        for k in range(x.shape[1]):
            total += x[row, k] * w[k, column]
        out[row, column] = math.tanh(total) if squash else total


@cuda.jit
def softmax_gradient(scores, labels, gradient, losses):
    row = cuda.grid(1)
    if row < scores.shape[0]:
        largest = scores[row, 0]
        for column in range(1, scores.shape[1]):
            largest = max(largest, scores[row, column])
        total = 0.0
        for column in range(scores.shape[1]):
            total += math.exp(scores[row, column] - largest)
        for column in range(scores.shape[1]):
            part = math.exp(scores[row, column] - largest) / total
            hit = 1.0 if column == labels[row] else 0.0
            gradient[row, column] = (part - hit) / scores.shape[0]
            if column == labels[row]:
                losses[row] = -math.log(part)


@cuda.jit
def back(gradient, w, hidden, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = 0.0
        for k in range(gradient.shape[1]):
            total += gradient[row, k] * w[column, k]
        out[row, column] = total * (1.0 - hidden[row, column] * hidden[row, column])


@cuda.jit
def descend(x, gradient, w, b, rate):
    k, column = cuda.grid(2)
    if column < w.shape[1]:
        if k < w.shape[0]:
            total = 0.0
            for row in range(x.shape[0]):
                total += x[row, k] * gradient[row, column]
            w[k, column] -= rate * total
        elif k == w.shape[0]:
            total = 0.0
            for row in range(x.shape[0]):
                total += gradient[row, column]
            b[column] -= rate * total


def grid(rows, columns):
    return ((rows + 7) // 8, (columns + 7) // 8), (8, 8)


def clusters(rng):
    centres = 1.5 * rng.standard_normal((3, 16))
    labels = np.arange(96) % 3
    return centres[labels] + rng.standard_normal((96, 16)), labels.astype(np.int32)


def start(rng):
    sizes = [(16, 32), (32, 3)]
    return [(rng.standard_normal(size) / math.sqrt(size[0]), np.zeros(size[1])) for size in sizes]


def train_numba(x, labels, layers):
    (w1, b1), (w2, b2) = [tuple(map(cuda.to_device, layer)) for layer in layers]
    x, labels = cuda.to_device(x), cuda.to_device(labels)
    rows = x.shape[0]
    hidden, back_hidden = (cuda.device_array((rows, 32)) for _ in range(2))
    scores, gradient = (cuda.device_array((rows, 3)) for _ in range(2))
    losses = cuda.device_array(rows)
    history = []
    for _ in range(STEPS):
        affine[grid(rows, 32)](x, w1, b1, hidden, True)
        affine[grid(rows, 3)](hidden, w2, b2, scores, False)
        softmax_gradient[(rows + 31) // 32, 32](scores, labels, gradient, losses)
        back[grid(rows, 32)](gradient, w2, hidden, back_hidden)
        descend[grid(33, 3)](hidden, gradient, w2, b2, RATE)
        descend[grid(17, 32)](x, back_hidden, w1, b1, RATE)
        history.append(losses.copy_to_host().mean())
    return np.array(history)


def train_numpy(x, labels, layers):
    (w1, b1), (w2, b2) = [tuple(part.copy() for part in layer) for layer in layers]
    rows = np.arange(len(x))
    history = []
    for _ in range(STEPS):
        hidden = np.tanh(x @ w1 + b1)
        scores = hidden @ w2 + b2
        parts = np.exp(scores - scores.max(axis=1, keepdims=True))
        parts /= parts.sum(axis=1, keepdims=True)
        history.append(-np.log(parts[rows, labels]).mean())
        gradient = parts.copy()
        gradient[rows, labels] -= 1
        gradient /= len(x)
        back_hidden = gradient @ w2.T * (1 - hidden**2)
        w2 -= RATE * hidden.T @ gradient
        b2 -= RATE * gradient.sum(axis=0)
        w1 -= RATE * x.T @ back_hidden
        b1 -= RATE * back_hidden.sum(axis=0)
    return np.array(history)


def main():
    rng = np.random.default_rng(11)
    x, labels = clusters(rng)
    layers = start(rng)
    ours, reference = train_numba(x, labels, layers), train_numpy(x, labels, layers)
    difference = np.abs(ours / reference - 1).max()
    print(f"loss {ours[0]:.6f} -> {ours[-1]:.6f} in {STEPS} steps; largest relative difference {difference:.1e}")
    if not (difference < 1e-9 and ours[-1] < ours[0] / 20):
        sys.exit("the losses differ from the reference's, or nothing was learnt")


if __name__ == "__main__":
    main()
