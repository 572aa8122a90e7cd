#!/usr/bin/env python3
"""The three fp32 products of a linear layer's step on the CPU: torch's (MKL on x86) against oneDNN's inner product, as
src/nn/product.cpp calls it; and the product whose rows are written multiples of 4 KiB apart, as inference would have
it without padding.

    PYTHONPATH=$LOCKSTEP_TORCH_DIR python3 bench/fp32_products.py --out bench/results/fp32_products_cpu.json

Processor time of one thread, calls of all forms in turn, medians; each result is compared with torch's first.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import time

import torch

SHAPES = [(800, 768, 3072), (800, 3072, 768), (800, 768, 768), (800, 768, 2304), (1232, 512, 2048), (1232, 2048, 512),
          (1024, 768, 50304)]  # rows, in, out: the towers of ViT-B-32 with 16 pairs, GPT-2's head
PADDED = [(50, 768, 3072), (50, 768, 3088), (64, 512, 2048), (64, 512, 2064), (400, 768, 3072), (400, 768, 3088)]


def onednn(x, weight, bias=None):
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def gflops_per_s(forms: dict, flops: float, rounds: int) -> dict:
    samples = {name: [] for name in forms}
    for number in range(rounds + 1):
        for name, form in list(forms.items())[::1 if number % 2 else -1]:
            began = time.thread_time()
            form()
            samples[name].append(time.thread_time() - began)
    return {name: round(flops / statistics.median(values[1:]) / 1e9, 1) for name, values in samples.items()}


def step_products(rows: int, num_in: int, num_out: int, rounds: int) -> dict:
    x, weight, bias = torch.randn(rows, num_in), torch.randn(num_out, num_in), torch.randn(num_out)
    gradient = torch.randn(rows, num_out)
    pairs = {
        "forward": (lambda: torch.nn.functional.linear(x, weight, bias), lambda: onednn(x, weight, bias)),
        "gradient of x": (lambda: gradient @ weight, lambda: onednn(gradient, weight.t())),
        "gradient of weight": (lambda: gradient.t() @ x, lambda: onednn(gradient.t(), x.t())),
    }
    result = {"rows": rows, "in": num_in, "out": num_out}
    for name, (plain, own) in pairs.items():
        truth = plain()
        assert (own() - truth).abs().max() < 1e-5 * truth.abs().max(), name
        rates = gflops_per_s({"torch": plain, "onednn": own}, 2 * rows * num_in * num_out, rounds)
        result[name] = rates | {"ratio": round(rates["onednn"] / rates["torch"], 3)}
    return result


def packed_product(rows: int, num_in: int, num_out: int, rounds: int) -> dict:
    """Eight layers in turn, so that weights come from memory."""
    x = torch.randn(rows, num_in)
    layers = [(torch.ops.mkldnn._reorder_linear_weight(torch.randn(num_out, num_in), 64), torch.randn(num_out))
              for _ in range(8)]
    rates = gflops_per_s({"packed": lambda: [onednn(x, weight, bias) for weight, bias in layers]},
                         8 * 2 * rows * num_in * num_out, rounds)
    return {"rows": rows, "in": num_in, "out": num_out} | rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    record = {"command": "python3 bench/fp32_products.py", "torch": torch.__version__, "unit": "GFLOP/s, one thread",
              "processor": next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line),
                                platform.machine()),
              "load_average_1_min": os.getloadavg()[0],
              "step": [step_products(*shape, options.rounds) for shape in SHAPES],
              "rows 4 KiB apart": [packed_product(*shape, options.rounds) for shape in PADDED]}
    print(json.dumps(record, indent=1))
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
