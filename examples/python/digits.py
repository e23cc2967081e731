"""Training with a parameter server that is no process: the weights are a shared variable. Each rank
takes the newest weights, computes a gradient on its part of the data and adds its step, while the
others do the same.

    hikyaku run -n 4 -- python digits.py

The data are scikit-learn's handwritten digits, 1,797 pictures of 8 x 8.
"""

import sys

import numpy

import hikyaku

EPOCHS, BATCH, RATE = 40, 32, 0.05


def load() -> tuple[numpy.ndarray, numpy.ndarray] | None:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    pictures, digits = load_digits(return_X_y=True)
    return numpy.hstack([pictures / 16, numpy.ones((len(pictures), 1))]), digits


def probabilities(pictures: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    scores = pictures @ weights
    powers = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def gradient(
    pictures: numpy.ndarray, digits: numpy.ndarray, weights: numpy.ndarray
) -> numpy.ndarray:
    """Of the cross entropy of a linear classifier."""
    error = probabilities(pictures, weights)
    error[numpy.arange(len(digits)), digits] -= 1
    return pictures.T @ error / len(digits)


def main() -> int:
    world = hikyaku.world()
    data = load()
    if data is None:
        print("digits: scikit-learn is missing; pip install scikit-learn", file=sys.stderr)
        return 0 if world.rank else 1
    pictures, digits = data
    # The same shuffle everywhere; the last fifth is for the check.
    order = numpy.random.default_rng(1).permutation(len(digits))
    train, check = numpy.split(order, [len(order) * 4 // 5])
    mine = train[world.rank :: world.size]

    weights = world.shared("weights", (pictures.shape[1], 10), "f8")
    chance = numpy.random.default_rng([2, world.rank])
    for _ in range(EPOCHS):
        for batch in numpy.array_split(chance.permutation(mine), max(1, len(mine) // BATCH)):
            with weights.read() as newest:
                step = gradient(pictures[batch], digits[batch], newest)
            with weights.write() as newest:
                newest -= RATE * step
    world.barrier()
    if world.rank == 0:
        with weights.read() as newest:
            guesses = probabilities(pictures[check], newest).argmax(axis=1)
        right = (guesses == digits[check]).mean()
        print(f"{world.size} ranks, {EPOCHS} epochs: {right:.1%} of {len(check)} digits right")
        assert right > 0.9, "it has not learnt"
    world.barrier()
    return 0


if __name__ == "__main__":
    sys.exit(main())
