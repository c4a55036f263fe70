"""The base model with its adapter, and text that every Python has: its documents and sources."""

import sysconfig
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2LMHeadModel
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()
LENGTH = 64  # characters that the model sees at once


def with_adapter(base: str, seed: int = 42) -> PeftModel:
    """The base model, frozen, with an adapter that changes nothing yet."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel.from_pretrained(base)
    targets = ["c_attn", "c_fc"]
    return get_peft_model(model, LoraConfig(r=4, target_modules=targets, fan_in_fan_out=True))


def characters(text: str) -> torch.Tensor:
    """A text as numbers below 128."""
    return torch.tensor(list(text.encode("ascii", "replace")))


def documents() -> torch.Tensor:
    """English: what the base model has learned from."""
    return characters("\n".join(text for _, text in sorted(topics.items())))


@cache
def sources() -> tuple[list[torch.Tensor], torch.Tensor]:
    """Python: each client has a module of the standard library; every tenth is for the test."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [file.read_text("utf-8") for file in files if file.stat().st_size > 20_000]
    test = torch.cat([characters(text) for text in texts[::10]])
    return [characters(t) for k, t in enumerate(texts) if k % 10], test


def batch(text: torch.Tensor, size: int, rng: np.random.Generator) -> torch.Tensor:
    """Windows of a text."""
    starts = rng.integers(len(text) - LENGTH, size=size)
    return torch.stack([text[start : start + LENGTH] for start in starts.tolist()])


def next_characters(model: torch.nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and accuracy of the next character."""
    scores, targets = model(input_ids=x).logits[:, :-1].flatten(0, 1), x[:, 1:].flatten()
    right = (scores.argmax(-1) == targets).float().mean()
    return torch.nn.functional.cross_entropy(scores, targets), right


@torch.inference_mode()
def evaluate(model: torch.nn.Module) -> tuple[float, float]:
    """Loss and accuracy in modules that no client has."""
    x = batch(sources()[1], 512, np.random.default_rng(0))
    loss, accuracy = next_characters(model.eval(), x)
    return float(loss), float(accuracy)
