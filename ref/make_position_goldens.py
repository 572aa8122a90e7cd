"""Position embeddings of other sizes, as OpenCLIP resizes them when it loads weights.

Packages (PyPI): open_clip_torch==3.3.0 torch==2.11.0 safetensors. Run from the repository root:

    python3 ref/make_position_goldens.py

Writes tests/golden/clip/resized_positions.safetensors: "picture/A/B" are embeddings of A x A patches at B x B,
"text/A/B" of A tokens at B. The embeddings that are resized are a formula, which the test repeats.
"""
import pathlib
from types import SimpleNamespace

import torch
from open_clip.model import resize_pos_embed, resize_text_pos_embed
from safetensors.torch import save_file

WIDTH = 3


def formula(rows):
    return torch.sin(0.7 * torch.arange(rows * WIDTH, dtype=torch.float64)).reshape(rows, WIDTH).float()


def main():
    out = {}
    for old, new in ((2, 5), (4, 3), (7, 7), (7, 12)):
        state = {"visual.positional_embedding": formula(old * old + 1)}
        resize_pos_embed(state, SimpleNamespace(visual=SimpleNamespace(grid_size=(new, new))))
        out[f"picture/{old}/{new}"] = state["visual.positional_embedding"].contiguous()
    for old, new in ((5, 9), (16, 7), (8, 8)):
        state = {"positional_embedding": formula(old)}
        resize_text_pos_embed(state, SimpleNamespace(positional_embedding=torch.empty(new, WIDTH)))
        out[f"text/{old}/{new}"] = state["positional_embedding"].contiguous()
    golden = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "clip"
    save_file(out, golden / "resized_positions.safetensors")


if __name__ == "__main__":
    main()
