"""How a remembered update becomes bytes: one short file per codec."""

from fedadavr.codecs.codec import CODECS, NOTHING, Codec, Support, codec
from fedadavr.plugins import import_all

import_all(__name__, __path__)

__all__ = ["CODECS", "NOTHING", "Codec", "Support", "codec"]
