#!/usr/bin/env python3
"""Gradients of ResNet-50's 1x1 convolutions on the CPU: oneDNN's convolutions backward, as torch calls them, against
the matrix products of src/nn/pointwise_conv.cpp. 16 pictures, channels last.

    PYTHONPATH=$LOCKSTEP_TORCH_DIR python3 bench/pointwise_gradients.py --out bench/results/pointwise_gradients_cpu.json

Milliseconds, calls of both in turn, medians; each result is compared with torch's first. "step" sums all layers of a
step.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import time

import torch

PICTURES = 16
LAYERS = [(64, 64, 56, 1, 1), (64, 256, 56, 1, 4), (256, 64, 56, 1, 2), (256, 128, 56, 1, 1), (256, 512, 56, 2, 1),
          (128, 512, 28, 1, 4), (512, 128, 28, 1, 3), (512, 256, 28, 1, 1), (512, 1024, 28, 2, 1),
          (256, 1024, 14, 1, 6), (1024, 256, 14, 1, 5), (1024, 512, 14, 1, 1), (1024, 2048, 14, 2, 1),
          (512, 2048, 7, 1, 3), (2048, 512, 7, 1, 2)]  # channels in and out, rows, stride, how many there are


def rows_of(x):
    return x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def medians_ms(forms: list, rounds: int) -> list:
    samples = [[] for _ in forms]
    for number in range(rounds + 1):
        for index in range(len(forms))[::1 if number % 2 else -1]:
            began = time.perf_counter()
            forms[index]()
            samples[index].append(1000 * (time.perf_counter() - began))
    return [round(statistics.median(values[1:]), 2) for values in samples]


def compare_layer(layer: tuple, dtype, rounds: int) -> dict:
    num_in, num_out, size, stride, count = layer
    x = torch.randn(PICTURES, num_in, size, size, dtype=dtype).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(num_out, num_in, 1, 1, dtype=dtype).contiguous(memory_format=torch.channels_last)
    gradient = torch.randn_like(torch.conv2d(x, weight, None, stride))

    def convolution(*mask):
        return torch.ops.aten.convolution_backward(gradient, x, weight, None, [stride] * 2, [0, 0], [1, 1], False,
                                                   [0, 0], 1, [*mask, False])

    def product_x():
        found = (rows_of(gradient) @ weight.flatten(1)).view(*gradient.permute(0, 2, 3, 1).shape[:3], -1)
        if stride == 1:
            return found.permute(0, 3, 1, 2)
        whole = torch.zeros_like(x)
        whole[:, :, ::stride, ::stride] = found.permute(0, 3, 1, 2)
        return whole

    def product_weight():
        return (rows_of(gradient).t() @ rows_of(x[:, :, ::stride, ::stride])).view(weight.shape)

    result = {"in": num_in, "out": num_out, "rows": size, "stride": stride, "layers": count}
    pairs = {"x": (lambda: convolution(True, False), product_x),
             "weight": (lambda: convolution(False, True), product_weight)}
    for index, (name, (plain, own)) in enumerate(pairs.items()):
        truth = plain()[index].float()
        bound = 1e-5 if dtype == torch.float32 else 2e-2
        assert (own().float() - truth).abs().max() < bound * truth.abs().max(), name
        convolution_ms, product_ms = medians_ms([plain, own], rounds)
        result[f"gradient of {name}"] = {"convolution": convolution_ms, "product": product_ms}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    command = f"python3 bench/pointwise_gradients.py --rounds {options.rounds} --threads {options.threads}"
    document = {"command": command, "torch": torch.__version__, "unit": f"ms, {options.threads} threads",
                "processor": next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                                   if line.startswith("model name")), platform.machine()),
                "load_average_1_min": os.getloadavg()[0]}
    for name, dtype in {"bf16": torch.bfloat16, "fp32": torch.float32}.items():
        layers = [compare_layer(layer, dtype, options.rounds) for layer in LAYERS]
        step = {which: {form: round(sum(one["layers"] * one[which][form] for one in layers), 1)
                        for form in ("convolution", "product")} for which in ("gradient of x", "gradient of weight")}
        document[name] = {"step": step, "layers": layers}
        print(name, json.dumps(step))
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
