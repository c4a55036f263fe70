"""The passes over the coordinates. Every other room calls these, none repeats them."""

from fedadavr.kernels.block_functions import BlockFunction, codec_function, optimizer_function
from fedadavr.kernels.histogram import tally
from fedadavr.kernels.intrinsics import pointer
from fedadavr.kernels.passes import (
    BLOCK,
    GROUP,
    LARGEST,
    LARGEST_SQUARED,
    NEVER,
    NOISE,
    SKETCH,
    accumulate,
    advance,
    blend,
    encode,
    finish,
    measure,
    optimize,
    peaks,
)
from fedadavr.kernels.running import Blocks, address, call, run, set_threads, threads
from fedadavr.kernels.terms import (
    Combination,
    NewRecords,
    OptimizerStep,
    Products,
    Records,
    Replies,
    Sketch,
    Vectors,
)

__all__ = [
    "BLOCK", "GROUP", "LARGEST", "LARGEST_SQUARED", "NEVER", "NOISE", "SKETCH", "BlockFunction",
    "Blocks", "Combination", "NewRecords", "OptimizerStep", "Products", "Records", "Replies",
    "Sketch", "Vectors", "accumulate", "address", "advance", "blend", "call", "codec_function",
    "encode", "finish", "measure", "optimize", "optimizer_function", "peaks", "pointer", "run",
    "set_threads", "tally", "threads",
]  # fmt: skip
