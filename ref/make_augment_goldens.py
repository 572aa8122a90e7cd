#!/usr/bin/env python3
"""Writes tests/golden/augment/: checksums of what torchvision's augmentation policies make of Pillow pictures; what
they draw; and pictures that training sets hold now and then.

Needs from PyPI: Pillow==13.0.0 numpy torch==2.11.0 torchvision==0.26.0. Run: python3 ref/make_augment_goldens.py
The CRC-32 (zlib) is taken over the rows of RGB bytes; pictures are those of make_image_goldens.py's generate().
"""
import collections
import io
import json
import pathlib

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import (AutoAugment, CenterCrop, Compose, InterpolationMode, RandAugment, RandomErasing,
                                    Resize,
                                    TrivialAugmentWide)
from torchvision.transforms import autoaugment
from torchvision.transforms.functional import adjust_hue

from make_image_goldens import crc, generate

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/augment"
MODES = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR}
OPS = ("Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness Posterize Solarize "
       "AutoContrast Equalize Invert").split()
MAGNITUDES = {"ShearX": (0.3, 0.09, 0.99), "TranslateX": (101.51, 30.45, 3.0), "Rotate": (30.0, 9.0, 135.0, 0.0),
              "Brightness": (0.9, 0.27, 0.99), "Posterize": (8, 7, 5, 4, 2), "Solarize": (255.0, 178.5, 127.5, 0.0)}
MAGNITUDES |= {"ShearY": MAGNITUDES["ShearX"], "TranslateY": MAGNITUDES["TranslateX"],
               "Color": MAGNITUDES["Brightness"],
               "Contrast": MAGNITUDES["Brightness"], "Sharpness": MAGNITUDES["Brightness"]}
SIGNED = OPS[1:10]


def op_cases():
    cases = []
    for w, h in ((64, 64), (61, 47), (224, 224), (3, 2)):
        for kind in range(3):
            picture = Image.fromarray(generate(w, h, kind))
            for op in OPS:
                for magnitude in MAGNITUDES.get(op, (0.0,)):
                    for sign in (1, -1) if op in SIGNED else (1,):
                        for mode, interpolation in MODES.items():
                            out = autoaugment._apply_op(picture, op, sign * magnitude, interpolation, None)
                            cases.append([w, h, kind, op, sign * magnitude, mode, crc(np.array(out))])
    return {"columns": ["w", "h", "kind", "op", "magnitude", "mode", "crc"], "cases": cases}


def hue_cases():
    cases = []
    for w, h in ((64, 64), (61, 47), (3, 2)):
        for kind in range(3):
            picture = Image.fromarray(generate(w, h, kind))
            for turn in (0.5, -0.5, 0.1, -0.1, 0.003, 0.0, 0.37, -0.29):
                cases.append([w, h, kind, turn, crc(np.array(adjust_hue(picture, turn)))])
    return {"columns": ["w", "h", "kind", "turn", "crc"], "cases": cases}


def drawn(policy, w, h):
    """Every (op, magnitude) that the policy asked for, and how often, in 40,000 pictures."""
    counts = collections.Counter()
    original = autoaugment._apply_op

    def count(img, op_name, magnitude, interpolation, fill):
        counts[op_name, round(magnitude, 9)] += 1
        return img

    autoaugment._apply_op = count
    picture = Image.new("RGB", (w, h))
    for _ in range(40000):
        policy(picture)
    autoaugment._apply_op = original
    return sorted([op, magnitude, n] for (op, magnitude), n in counts.items())


def erased():
    torch.manual_seed(3)
    boxes = []
    for _ in range(20000):
        y, x, h, w, _ = RandomErasing.get_params(torch.zeros(3, 64, 48), scale=(0.02, 0.33), ratio=(0.3, 3.3),
                                                 value=[0.0])
        boxes.append((w, h, w * h, x / max(1, 48 - w), y / max(1, 64 - h)))
    deciles = np.quantile(np.array(boxes), np.linspace(0.1, 0.9, 9), axis=0).T
    return {"size": [48, 64], "names": ["width", "height", "area", "x", "y"],
            "deciles": [[round(float(v), 5) for v in row] for row in deciles]}


def evaluation_cases():
    cases = []
    for i, (w, h) in enumerate(((500, 375), (375, 500), (64, 64), (300, 257), (33, 97), (256, 256), (1000, 300))):
        for resize, crop in ((256, 224), (232, 224), (40, 32), (33, 33)):
            picture = Image.fromarray(generate(w, h, i % 3))
            out = Compose([Resize(resize), CenterCrop(crop)])(picture)
            cases.append([w, h, i % 3, resize, crop, crc(np.array(out))])
    return {"columns": ["w", "h", "kind", "resize", "crop", "crc"], "cases": cases}


def odd_pictures():
    """Decoded as torchvision's ImageFolder does it: Image.open(...).convert("RGB"), EXIF orientation not applied."""
    def save(picture, kind, **options):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        return buffer.getvalue()

    picture = Image.fromarray(generate(40, 24, 1))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    files = {"exif_turned.jpg": save(picture, "JPEG", quality=90, exif=exif),
             "animated.png": save(picture, "PNG", save_all=True, append_images=[picture.rotate(90)], duration=50)}
    cases = []
    for name, content in files.items():
        (OUT / name).write_bytes(content)
        pixels = np.array(Image.open(io.BytesIO(content)).convert("RGB"))
        cases.append([name, pixels.shape[1], pixels.shape[0], crc(pixels)])
    (OUT / "animated.gif").write_bytes(save(picture, "GIF", save_all=True, append_images=[picture.rotate(90)]))
    return {"columns": ["file", "width", "height", "crc"], "cases": cases}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    golden = {
        "ops": op_cases(),
        "hue": hue_cases(),
        "drawn": {"size": [96, 64], "imagenet": drawn(AutoAugment(), 96, 64), "ra": drawn(RandAugment(), 96, 64),
                  "ta_wide": drawn(TrivialAugmentWide(), 96, 64)},
        "erased": erased(),
        "evaluation": evaluation_cases(),
        "odd": odd_pictures(),
    }
    for name, section in golden.items():
        text = json.dumps(section, indent=None, separators=(",", ":")).replace("],[", "],\n[")
        (OUT / f"{name}.json").write_text(text + "\n")
    print("bytes:", sum(p.stat().st_size for p in OUT.iterdir()))


if __name__ == "__main__":
    main()
