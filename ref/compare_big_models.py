"""Compares whole models with OpenCLIP on the same weights and inputs: features, logits, loss and all gradients, fp32 on
the CPU.

Needs from PyPI: open_clip_torch 3.3.0, torch 2.11.0, safetensors; and a built test program. Run from the top of the
repository:

    python3 ref/compare_big_models.py build/test_models ref/results/clip_big_models.md

Weights are OpenCLIP's own initial ones; the last norm weights of ResNet bottlenecks are 0.25 instead of 0, and scales
of FastViT's branches 0.5 instead of 1e-5, so that every part matters. Beside our difference stands that of OpenCLIP
from itself in float64. Files (1.5 GB at most) lie in a temporary folder.
"""
import json
import pathlib
import sys
import tempfile

import open_clip
import torch
import torch.nn.functional as F
from open_clip.model import CLIP, CustomTextCLIP
from safetensors.torch import save_file

from big_models import compare, table

BATCH = 8
MODELS = ["ViT-B-32", "ViT-B-32-quickgelu", "RN50", "MobileCLIP2-S0"]


def run(model, image, text):
    """Everything that is compared, with gradients of all parameters; leaves the model in training mode."""
    with torch.no_grad():
        outputs = {"output/eval_image": model.eval().encode_image(image, normalize=True)}
    model.train()
    image_features, text_features = model.encode_image(image, normalize=True), model.encode_text(text, normalize=True)
    logits = model.logit_scale.exp() * image_features @ text_features.T
    labels = torch.arange(len(image))
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    loss.backward()
    outputs |= {"output/train_image": image_features, "output/train_text": text_features, "output/logits": logits,
                "output/loss": loss}
    outputs |= {f"grad/{key}": value.grad for key, value in model.named_parameters()}
    return {key: value.detach().contiguous() for key, value in outputs.items()}


def own_rounding(single, double):
    """OpenCLIP in float32 against itself in float64, in the measure and under the names of the test program."""
    def error(keys):
        a, b = (torch.cat([outputs[key].double().flatten() for key in keys]) for outputs in (single, double))
        return f"{((a - b).abs().max() / b.abs().max()).item():.3g}"

    return {
        "image_features": error(["output/train_image"]), "text_features": error(["output/train_text"]),
        "logits": error(["output/logits"]),
        "loss": error(["output/loss"]), "gradients": error([key for key in double if key.startswith("grad/")]),
        "image_features_evaluation": error(["output/eval_image"]),
    }


def build(config):
    config = json.loads(json.dumps(config))
    kind = CustomTextCLIP if config.pop("custom_text", False) else CLIP
    return kind(**config)


def write_case(name, path):
    config = open_clip.get_model_config(name)
    generator = torch.Generator().manual_seed(11)
    torch.manual_seed(11)
    model = build(config)
    for key, value in model.named_parameters():
        if key.endswith("bn3.weight"):
            value.data.fill_(0.25)
        if ".trunk." in key and key.endswith("gamma"):
            value.data.fill_(0.5)
    size, text_shape = config["vision_cfg"]["image_size"], config["text_cfg"]
    length, vocab = text_shape["context_length"], text_shape["vocab_size"]
    image = torch.randn(BATCH, 3, size, size, generator=generator)
    text = torch.zeros(BATCH, length, dtype=torch.int64)
    for row in range(BATCH):
        end = 4 + 9 * row
        text[row, :end] = torch.randint(1, vocab - 2, (end,), generator=generator)
        text[row, 0], text[row, end] = vocab - 2, vocab - 1
    state = {key: value.clone() for key, value in model.state_dict().items()}
    double = build(config)
    double.load_state_dict(state)
    single_outputs, double_outputs = run(model, image, text), run(double.double(), image.double(), text)
    tensors = {f"param/{key}": value for key, value in state.items()} | {"input/image": image,
                                                                         "input/text": text} | single_outputs
    save_file(tensors, path, {"config": json.dumps(config)})
    return own_rounding(single_outputs, double_outputs)


def main():
    program, report = sys.argv[1], pathlib.Path(sys.argv[2])
    results = {}
    for name in sys.argv[3:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "case.safetensors"
            rounding = write_case(name, path)
            results[name] = compare(program, "ClipModel.BigModelEqualsOpenClip", "LOCKSTEP_BIG_CLIP", path)
            # two fp32 programs may each be that far from the truth; other sums, other rounding
            for column, value in rounding.items():
                if float(results[name][column]) > max(2e-6, 5 * float(value)):
                    raise SystemExit(f"{name}: {column} differs by {results[name][column]}, OpenCLIP's own rounding "
                                     f"is {value}")
            results[f"{name}: OpenCLIP fp32 from its float64"] = rounding
    lines = [
        "# Whole models against OpenCLIP",
        "",
        "Largest absolute difference over the largest absolute value of OpenCLIP's result; fp32, CPU, batch 8, equal "
        "weights",
        "(OpenCLIP's initial ones, but bn3.weight 0.25, FastViT's gamma 0.5) and inputs, texts of 5 to 68 tokens, "
        "training mode unless it says evaluation.",
        "Ours leaves out what cannot reach the result (exact shortcuts on). `gradients`: all parameters joined.",
        "",
        f"Made by `python3 ref/compare_big_models.py build/test_models {report}` with open_clip_torch "
        f"{open_clip.__version__}, torch {torch.__version__.split('+')[0]}, {torch.get_num_threads()} threads.",
        "",
        *table(results),
    ]
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
