"""Compares whole models with OpenCLIP on the same weights and inputs: features, logits, loss and all gradients, fp32 on the CPU.

Needs from PyPI: open_clip_torch 3.3.0, torch 2.11.0, safetensors; and a built test program. Run from the top of the repository:

    python3 ref/compare_big_models.py build/test_models ref/results/clip_big_models.md

Weights are drawn by make_clip_goldens.draw_weights (every part of the model matters), pictures and texts likewise; the last block's norm
weights of ResNet bottlenecks are not zero then, as they would be at the start of training. Files lie in a temporary folder.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import open_clip
import torch
import torch.nn.functional as F
from open_clip.model import CLIP
from safetensors.torch import save_file

import make_clip_goldens

BATCH = 8
MODELS = ["ViT-B-32", "ViT-B-32-quickgelu", "RN50"]


def scale_residual_branches(model, layers):
    """Deep stacks of weights of full size drown the input; branches of 1/sqrt(2 layers) keep it."""
    for name, value in model.named_parameters():
        if name.endswith(("out_proj.weight", "c_proj.weight")) and "resblocks" in name:
            value.data.mul_((2 * layers) ** -0.5)


def write_case(name, path):
    config = open_clip.get_model_config(name)
    generator = torch.Generator().manual_seed(11)
    model = CLIP(**json.loads(json.dumps(config)))
    make_clip_goldens.draw_weights(model, generator)
    scale_residual_branches(model, 12)
    size, length, vocab = config["vision_cfg"]["image_size"], config["text_cfg"]["context_length"], config["text_cfg"]["vocab_size"]
    image = torch.randn(BATCH, 3, size, size, generator=generator)
    text = torch.zeros(BATCH, length, dtype=torch.int64)
    for row in range(BATCH):
        end = 4 + 9 * row
        text[row, :end] = torch.randint(1, vocab - 2, (end,), generator=generator)
        text[row, 0], text[row, end] = vocab - 2, vocab - 1
    tensors = {f"param/{key}": value.clone() for key, value in model.state_dict().items()}
    tensors |= {"input/image": image, "input/text": text}
    with torch.no_grad():
        tensors["output/eval_image"] = model.eval().encode_image(image, normalize=True)
    model.train()
    image_features, text_features = model.encode_image(image, normalize=True), model.encode_text(text, normalize=True)
    logits = model.logit_scale.exp() * image_features @ text_features.T
    labels = torch.arange(BATCH)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    loss.backward()
    tensors |= {"output/train_image": image_features, "output/train_text": text_features, "output/logits": logits, "output/loss": loss}
    tensors |= {f"grad/{key}": value.grad for key, value in model.named_parameters()}
    save_file({key: value.detach().contiguous() for key, value in tensors.items()}, path, {"config": json.dumps(config)})


def compare(program, path):
    environment = {**os.environ, "LOCKSTEP_BIG_CLIP": str(path)}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([program, "--gtest_filter=ClipModel.BigModelEqualsOpenClip"], env=environment, capture_output=True, text=True)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("measured: ")]
    if done.returncode != 0 or not lines:
        raise SystemExit(done.stdout + done.stderr)
    return dict(lines)


def main():
    program, report = sys.argv[1], pathlib.Path(sys.argv[2])
    results = {}
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "case.safetensors"
            write_case(name, path)
            results[name] = compare(program, path)
    columns = list(next(iter(results.values())))
    lines = [
        "# Whole models against OpenCLIP",
        "",
        "Largest absolute difference over the largest absolute value of OpenCLIP's result; fp32, CPU, batch 8, equal weights and inputs, texts of 5 to",
        "68 tokens. Ours leaves out what cannot reach the result (exact shortcuts on). `gradients`: all parameters joined.",
        "",
        f"Made by `python3 ref/compare_big_models.py build/test_models {report}` with open_clip_torch {open_clip.__version__}, torch "
        f"{torch.__version__.split('+')[0]}, {torch.get_num_threads()} threads.",
        "",
        "| model | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [f"| {name} | " + " | ".join(row[column] for column in columns) + " |" for name, row in results.items()]
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
