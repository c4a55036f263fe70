"""Data sets, where they are found, and how they are dealt out to clients."""

from typing import TYPE_CHECKING

from fedadavr.data.federation import Federation, federate
from fedadavr.data.registry import PARTITIONS, dataset, datasets, partition, partition_names
from fedadavr.data.sources import Dataset, load
from fedadavr.lazy import lazily

if TYPE_CHECKING:
    from fedadavr.data.examples import Arrays, Examples, Windows, images

__all__ = [
    "PARTITIONS", "Arrays", "Dataset", "Examples", "Federation", "Windows",
    "dataset", "datasets", "federate", "images", "load", "partition", "partition_names",
]  # fmt: skip

__getattr__ = lazily(  # these need PyTorch, a list of data sets does not
    __name__, {"fedadavr.data.examples": ["Arrays", "Examples", "Windows", "images"]}
)
