"""The in-process engine: sample, train, validate, aggregate, evaluate."""

from fedadavr.simulation.engine import Diverged, Engine, Evaluation, RoundReport

__all__ = ["Diverged", "Engine", "Evaluation", "RoundReport"]
