"""Make the base model: python -m lora_app.base FOLDER [STEPS]; it learns English, and no Python."""

import sys

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lora_app.task import LENGTH, batch, documents, evaluate, next_characters


def make(folder: str, steps: int = 600) -> None:
    """Train a small GPT-2 on Python's documents."""
    torch.manual_seed(42)
    torch.set_num_threads(1)
    rng, text = np.random.default_rng(42), documents()
    config = GPT2Config(
        vocab_size=128, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    adam = torch.optim.AdamW(model.parameters(), lr=0.003)
    for step in range(1, steps + 1):
        x = batch(text, 16, rng)
        loss, _ = next_characters(model, x)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.2f}")
    model.save_pretrained(folder)
    print("on Python sources: loss {:.2f}, accuracy {:.1%}".format(*evaluate(model)))


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:]))
