"""Trains a small convolutional network with tinygrad, which writes PTX itself (DEV=CUDA:PTX).

The network tells horizontal from vertical stripes, of noisy 8x8 images that are made here from a fixed seed. It must
learn it, and what the device computes for one batch must be what NumPy computes with the same weights.
"""

import os
import sys

os.environ.setdefault("DEV", "CUDA:PTX")

import numpy as np
from tinygrad import Context, Device, Tensor, nn
from tinygrad.nn.optim import SGD

IMAGES = 64
SIDE = 8
STEPS = 12


class Network:
    """A convolution with four filters of 3x3, a ReLU, and a linear layer with two outputs."""

    def __init__(self):
        self.convolution = nn.Conv2d(1, 4, 3)
        self.linear = nn.Linear(4 * (SIDE - 2) ** 2, 2)

    def __call__(self, images):
        return self.linear(self.convolution(images).relu().flatten(1))


def stripes(random):
    """Returns images of stripes with noise, and 1 for each whose stripes are vertical."""
    labels = random.integers(0, 2, IMAGES)
    waves = np.where(np.arange(SIDE) % 2 == 0, 1.0, -1.0)
    rows = np.broadcast_to(waves[:, None], (SIDE, SIDE))
    images = np.stack([rows.T if label else rows for label in labels])
    images = images + random.normal(0, 0.5, images.shape)
    return images[:, None].astype(np.float32), labels.astype(np.int32)


def on_the_host(images, network):
    """Returns what the network gives, computed with NumPy."""
    filters, bias = network.convolution.weight.numpy(), network.convolution.bias.numpy()
    windows = np.lib.stride_tricks.sliding_window_view(images[:, 0], (3, 3), axis=(1, 2))
    features = np.einsum("nyxij,fij->nfyx", windows, filters[:, 0]) + bias[None, :, None, None]
    features = np.maximum(features, 0).reshape(len(images), -1)
    return features @ network.linear.weight.numpy().T + network.linear.bias.numpy()


def main():
    assert Device.DEFAULT.startswith("CUDA"), Device.DEFAULT
    Tensor.manual_seed(1)
    images, labels = stripes(np.random.default_rng(1))
    network = Network()
    optimizer = SGD(nn.state.get_parameters(network), lr=0.1)
    inputs, answers = Tensor(images), Tensor(labels)
    losses = []
    with Context(TRAINING=1):
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = network(inputs).sparse_categorical_crossentropy(answers).backward()
            optimizer.step()
            losses.append(loss.item())
    scores = network(inputs).numpy()
    np.testing.assert_allclose(scores, on_the_host(images, network), rtol=1e-3, atol=1e-3)
    right = (scores.argmax(axis=1) == labels).mean()
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {right:.0%} right")
    return 0 if losses[-1] < losses[0] / 4 and right > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
