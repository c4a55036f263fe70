"""Flower's log, by its public name."""

import logging

log = logging.getLogger("flwr").log
