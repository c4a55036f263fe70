"""What a client does: local training from the server's model, and evaluation."""

from fedadavr.clients.local import FlatModel, Recipe, layout_of

__all__ = ["FlatModel", "Recipe", "layout_of"]
