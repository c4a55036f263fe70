"""How a remembered update becomes bytes."""

from fedadavr.codecs.codec import CODECS, NOTHING, Codec, codec

__all__ = ["CODECS", "NOTHING", "Codec", "codec"]
