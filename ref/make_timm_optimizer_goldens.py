"""Golden files of the optimisers that OpenCLIP takes from timm (--opt timm/lion, timm/lamb).

Packages (PyPI): timm torch==2.11.0 safetensors (ref/requirements.txt). Run from the repository root:

    python3 ref/make_timm_optimizer_goldens.py

Writes tests/golden/optim/timm.safetensors: parameters after each of five steps. Weights and gradients are those of
drawn_weights.py.
"""
import pathlib

import timm.optim
import torch
from drawn_weights import drawn
from safetensors.torch import save_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "optim"


def main():
    shapes, decays, out = {"bias": (7,), "scale": (), "weight": (5, 7), "conv": (4, 3, 2, 2)}, {"weight", "conv"}, {}
    for name, make in {"lion": timm.optim.Lion, "lamb": timm.optim.Lamb}.items():
        parameters = {key: torch.nn.Parameter(drawn("start." + key, shape)) for key, shape in shapes.items()}
        optimizer = make([{"params": [p for n, p in parameters.items() if n not in decays], "weight_decay": 0.0},
                          {"params": [p for n, p in parameters.items() if n in decays], "weight_decay": 0.05}], lr=1e-2)
        for step in range(5):
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 * (step + 1)
            for key, parameter in parameters.items():
                parameter.grad = drawn(f"grad.{step}.{key}", shapes[key], 0.1 if step == 3 else 2.0)
            optimizer.step()
            for key, parameter in parameters.items():
                out[f"{name}.{step}.{key}"] = parameter.detach().clone()
    save_file(out, GOLDEN / "timm.safetensors")


if __name__ == "__main__":
    main()
