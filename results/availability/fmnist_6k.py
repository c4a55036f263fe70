"""A tenth of Fashion-MNIST, so that 540 runs fit: of each class 600 to train and 500 to test."""

import numpy as np

from fedadavr.data import Arrays, Dataset, dataset, load


@dataset("fmnist-6k", clients=100, rounds=100, local_epochs=1)
def fmnist_6k() -> Dataset:
    """The first pictures of each class, in the order of the files."""
    whole = load("fmnist")
    return Dataset("fmnist-6k", _first(whole.train, 600), _first(whole.test, 500), whole.classes)


def _first(examples: Arrays, number: int) -> Arrays:
    labels = examples.labels.numpy()
    few = np.sort(np.concatenate([np.flatnonzero(labels == k)[:number] for k in range(10)]))
    return Arrays(examples.x[few], examples.labels[few])
