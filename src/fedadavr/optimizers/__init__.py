"""The server's optimizers: one short file each."""

from fedadavr.optimizers.optimizer import OPTIMIZERS, Optimizer, Rate, Rule, TrustRatio
from fedadavr.plugins import import_all

import_all(__name__, __path__)

__all__ = ["OPTIMIZERS", "Optimizer", "Rate", "Rule", "TrustRatio"]
