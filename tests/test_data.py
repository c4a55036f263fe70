"""Files are read with care, and partitions deal out what they promise."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedadavr.data import Arrays, Dataset, Federation, federate, load
from fedadavr.data.files import read_cifar, read_idx
from fedadavr.data.partitions import PARTITIONS, checked_shares
from fedadavr.data.shakespeare import read_roles


def labels_of(federation: Federation) -> list[np.ndarray]:
    labels = federation.train.labels.numpy()
    return [labels[part] for part in federation.train_parts]


@pytest.fixture(scope="module")
def five_k() -> Dataset:
    return load("mnist-5k")


def test_mnist_5k_is_stratified(five_k: Dataset) -> None:
    """4,000 to train and 1,000 to test, 400 and 100 of each class, none in both."""
    assert np.bincount(five_k.train.labels).tolist() == [400] * 10
    assert np.bincount(five_k.test.labels).tolist() == [100] * 10
    x = five_k.train.inputs(torch.arange(4000))
    assert x.shape == (4000, 1, 28, 28)
    assert abs(float(x.mean())) < 0.05
    assert abs(float(x.std()) - 1) < 0.05


@pytest.mark.parametrize("partition", list(PARTITIONS))
@pytest.mark.parametrize("clients", [10, 100])
def test_nothing_is_lost_or_given_twice(five_k: Dataset, partition: str, clients: int) -> None:
    """Every example has exactly one owner, in train and in test; nobody has none to train on."""
    federation = federate(five_k, partition, clients, seed=3)
    for parts, size in ((federation.train_parts, 4000), (federation.test_parts, 1000)):
        assert len(parts) == clients
        assert sorted(np.concatenate(parts).tolist()) == list(range(size))
    assert min(map(len, federation.train_parts)) > 0


@pytest.mark.parametrize("partition", list(PARTITIONS))
def test_train_and_test_have_the_same_shares(five_k: Dataset, partition: str) -> None:
    """A client's part of each class's test examples is its part of the train examples."""
    federation = federate(five_k, partition, 20, seed=1)
    test_labels = five_k.test.labels.numpy()
    for own, part in zip(labels_of(federation), federation.test_parts, strict=True):
        train = np.bincount(own, minlength=10) / 400
        test = np.bincount(test_labels[part], minlength=10) / 100
        np.testing.assert_allclose(test, train, atol=0.011)


def test_iid_is_an_equal_share_of_every_class(five_k: Dataset) -> None:
    """Forty images a client, four of each class."""
    for own in labels_of(federate(five_k, "iid", 100, seed=0)):
        assert np.bincount(own, minlength=10).tolist() == [4] * 10


@pytest.mark.parametrize("number", [1, 2, 3])
def test_label_quantity(five_k: Dataset, number: int) -> None:
    """Each client has that many classes; a class is split evenly; no class is unused."""
    federation = federate(five_k, f"lq-{number}", 50, seed=7)
    owners: list[list[int]] = [[] for _ in range(10)]
    for own in labels_of(federation):
        counts = np.bincount(own, minlength=10)
        assert (counts > 0).sum() == number
        for c in np.flatnonzero(counts):
            owners[c].append(int(counts[c]))
    for shares in owners:
        assert sum(shares) == 400
        assert max(shares) - min(shares) <= 1


def test_dirichlet_is_skewed_capped_and_fed(five_k: Dataset) -> None:
    """At least ten examples each; nobody far above what the cap allows; classes unequal."""
    federation = federate(five_k, "dirichlet", 50, seed=0)
    sizes = np.array([len(part) for part in federation.train_parts])
    assert sizes.min() >= 10
    counts = np.array([np.bincount(own, minlength=10) for own in labels_of(federation)])
    before_last = counts.cumsum(axis=1) - counts
    assert counts[before_last >= 4000 / 50 + 10].sum() == 0  # who had its share got no more
    assert counts.std() > 4


def test_iid_noniid_is_half_and_half(five_k: Dataset) -> None:
    """Every class at every client, two of them in strength."""
    for own in labels_of(federate(five_k, "iid-noniid", 20, seed=0)):
        counts = np.bincount(own, minlength=10)
        assert (counts >= 9).all()
        assert (counts > 30).sum() == 2


@pytest.mark.parametrize(("returned", "why"), [
    (np.full((10, 15), 1 / 15), r"shape \(10, 8\), a row for each class.*returned \(10, 15\)"),
    (None, "returned a NoneType"),
    (np.full((10, 8), 0.0625), "of class 0 do not: they add up to 0.5"),
    (np.where(np.eye(10, 8) > 0, np.nan, 1 / 8), "of class 0 do not: they add up to nan"),
    (np.tile([1.5, -0.5, 0, 0, 0, 0, 0, 0], (10, 1)), "the least is -0.5"),
])  # fmt: skip
def test_what_a_partition_of_ones_own_returns_is_looked_at(returned: Any, why: str) -> None:
    """It would be dealt wrongly, and nobody would know."""
    with pytest.raises(ValueError, match=why):
        checked_shares("mine", returned, 10, 8)


def test_the_seed_decides_the_partition(five_k: Dataset) -> None:
    """The same seed, the same clients; another seed, others."""
    one, same, other = (federate(five_k, "lq-2", 50, seed=s) for s in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one.train_parts, same.train_parts, strict=True))
    assert any(
        len(a) != len(b) or (a != b).any()
        for a, b in zip(one.train_parts, other.train_parts, strict=True)
    )


@pytest.mark.parametrize(
    ("partition", "clients", "message"),
    [
        ("lq-1", 5, "would leave classes unused: use at least 10 clients"),
        ("dirichlet", 1000, "4.0 each, and every client should have at least 10"),
        ("dirichlet", 390, "always had fewer than 10 of the 4000 examples: use fewer clients"),
        ("natural", None, "does not come with clients"),
        ("iid", 5000, "5000 clients, but only 4000 examples"),
        ("lq-4", 10, "unknown partition 'lq-4' .*there are: iid, iid-noniid"),
    ],
)
def test_impossible_partitions_are_refused(
    five_k: Dataset, partition: str, clients: int | None, message: str
) -> None:
    """One sentence, at once."""
    with pytest.raises(ValueError, match=message):
        federate(five_k, partition, clients, seed=0)


def test_a_federation_of_ones_own_is_checked() -> None:
    """Indices outside the data, clients with nothing, unequal lists."""
    data = Arrays(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long))
    good = [np.array([0, 1]), np.array([2, 3])]
    Federation(data, data, good, good, 1)
    with pytest.raises(ValueError, match="train_parts: client 1 has an index outside the 4"):
        Federation(data, data, [good[0], np.array([4])], good, 1)
    with pytest.raises(ValueError, match="client 1 has no example to train on"):
        Federation(data, data, [good[0], np.array([], int)], good, 1)
    with pytest.raises(ValueError, match="2 clients train and 1 test"):
        Federation(data, data, good, good[:1], 1)


# --- files ---


def idx(shape: tuple[int, ...], kind: int = 8) -> bytes:
    body = bytes(i % 256 for i in range(int(np.prod(shape))))
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body


def test_idx_files_are_read(tmp_path: Path) -> None:
    """Shape and bytes."""
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(idx((2, 3, 4))))
    assert read_idx(path).shape == (2, 3, 4)
    assert read_idx(path).ravel().tolist() == list(range(24))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(idx((2, 3)))[:-9], "damaged or cut short"),
        (b"not gzip at all", "damaged or cut short"),
        (gzip.compress(idx((2, 3))[:-1]), "has 17 bytes, its header says 18"),
        (gzip.compress(idx((2, 3)) + b"x"), "has 19 bytes, its header says 18"),
        (gzip.compress(idx((2, 3), kind=13)), "not an IDX file of bytes"),
        (gzip.compress(b"\0\0\x08\x03\0"), "its header needs 16 bytes, it has 5"),
    ],
    ids=["truncated", "not gzip", "a byte short", "a byte long", "not bytes", "no header"],
)
def test_damaged_idx_files_are_named(tmp_path: Path, data: bytes, message: str) -> None:
    """The file's name and what is wrong with it."""
    path = tmp_path / "broken.gz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"broken.gz.*{message}"):
        read_idx(path)


def test_cifar_files_are_read_and_checked(tmp_path: Path) -> None:
    """A label byte and three planes each; a wrong size or label is named."""
    path = tmp_path / "batch.bin"
    rows = np.zeros((3, 3073), np.uint8)
    rows[:, 0] = [0, 9, 4]
    rows[1, 1 + 1024] = 77
    rows.tofile(path)
    pixels, labels = read_cifar(path, records=3)
    assert labels.tolist() == [0, 9, 4]
    assert pixels[1, 1, 0, 0] == 77
    with pytest.raises(ValueError, match=r"batch\.bin has 9219 bytes, not 30730000"):
        read_cifar(path)
    rows[0, 0] = 10
    rows.tofile(path)
    with pytest.raises(ValueError, match="has a label 10"):
        read_cifar(path, records=3)


def test_a_missing_data_set_says_three_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable, the cache, the network; and which files are meant."""
    monkeypatch.setenv("FEDADAVR_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("fedadavr.data.sources._online", lambda: False)
    load.cache_clear()
    for name, file in (("mnist", "train-images-idx3"), ("cifar10", "data_batch_1.bin")):
        message = f"{name} is not at hand .*set FEDADAVR_DATA .*{file}.*cache.*Hugging Face"
        with pytest.raises(ValueError, match=message):
            load(name)
    with pytest.raises(ValueError, match="shakespeare is not at hand"):
        load("shakespeare")


def test_another_text_is_not_taken_for_shakespeare() -> None:
    """Without two bylines it is not the edition."""
    with pytest.raises(ValueError, match="not the edition"):
        read_roles("To be or not to be\nby William Shakespeare\n")


def test_the_full_data_sets(full_data: Path) -> None:
    """Their sizes, and Shakespeare's two numbers with 904 clients to train and 225 held out."""
    load.cache_clear()
    for name, train in (("mnist", 60_000), ("fmnist", 60_000), ("cifar10", 50_000)):
        data = load(name)
        assert (len(data.train), len(data.test)) == (train, 10_000)
        x = data.train.inputs(torch.arange(5000))
        assert abs(float(x.mean())) < 0.05
        assert abs(float(x.std()) - 1) < 0.06
    plays = load("shakespeare")
    assert len(plays.train) == 4_226_158
    assert (len(plays.train_clients), len(plays.test_clients)) == (904, 225)
    assert not set(plays.train_clients) & set(plays.test_clients)
    federation = federate(plays, "natural", None, seed=0)
    assert federation.held_out
    windows = sum(map(len, federation.train_parts)) + sum(map(len, federation.test_parts))
    assert windows == 4_226_158
    x, y = plays.train.inputs(torch.tensor([0, 1])), plays.train.targets(torch.tensor([0]))
    assert x.shape == (2, 80)
    assert x[0, 1:].tolist() == x[1, :-1].tolist()  # windows of one text
    assert x[1, -1] == y[0]


def test_the_partitions_of_the_full_mnist(full_data: Path) -> None:
    """500 clients, as in the paper: the classes each has, and nothing lost."""
    load.cache_clear()
    mnist = load("mnist")
    for partition, classes in (("iid", 10), ("lq-1", 1), ("lq-2", 2), ("lq-3", 3)):
        federation = federate(mnist, partition, 500, seed=42)
        assert {len(np.unique(own)) for own in labels_of(federation)} == {classes}
        assert sum(map(len, federation.train_parts)) == 60_000
        sizes = [len(part) for part in federation.train_parts]
        assert min(sizes) >= 100
        assert max(sizes) <= 140
    sizes = [len(part) for part in federate(mnist, "dirichlet", 500, seed=42).train_parts]
    assert min(sizes) >= 10
    assert sum(sizes) == 60_000
