"""Data sets, where they are found, and how they are dealt out to clients."""

from fedadavr.data.examples import Arrays, Examples, Windows, images
from fedadavr.data.federation import Federation, federate
from fedadavr.data.partitions import PARTITIONS
from fedadavr.data.sources import Dataset, dataset, datasets, load

__all__ = [
    "PARTITIONS", "Arrays", "Dataset", "Examples", "Federation", "Windows",
    "dataset", "datasets", "federate", "images", "load",
]  # fmt: skip
