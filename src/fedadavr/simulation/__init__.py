"""The in-process engine: sample, train, validate, aggregate, evaluate."""

from fedadavr.simulation.engine import Diverged, Engine, Evaluation, Trained

__all__ = ["Diverged", "Engine", "Evaluation", "Trained"]
