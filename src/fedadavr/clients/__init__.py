"""What a client does: local training from the server's model, and evaluation."""

from fedadavr.clients.local import FlatModel, LocalSGD, layout_of

__all__ = ["FlatModel", "LocalSGD", "layout_of"]
