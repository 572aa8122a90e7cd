#!/usr/bin/env python3
"""Writes tests/golden/image/: small encoded pictures; checksums of what Pillow and OpenCLIP make of pictures.

Needs from PyPI: Pillow==13.0.0 numpy torch==2.11.0 torchvision==0.26.0 open_clip_torch==3.3.0.
Run: python3 ref/make_image_goldens.py
The CRC-32 (zlib) is taken over the rows of RGB bytes.
"""
import io
import json
import pathlib
import struct
import zlib

import numpy as np
import PIL
import torch
import torchvision
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/image"
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def generate(width, height, kind):
    """The picture that the C++ test draws too (32-bit unsigned arithmetic): 0 noise, 1 smooth with edges, 2 black and
    white."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    x, y, c = (v.astype(np.uint64) for v in (x, y, c))
    mask = np.uint64(0xFFFFFFFF)
    mixed = ((x * 73856093) ^ (y * 19349663) ^ (c * 83492791)) & mask
    mixed = (mixed * 2654435761) & mask
    mixed = ((mixed ^ (mixed >> np.uint64(15))) * 2246822519) & mask
    noise = mixed >> np.uint64(24)
    if kind == 0:
        value = noise
    elif kind == 1:
        value = (x * 2 + y * 3 + c * 50 + ((x // 9 + y // 7) % 2) * 60) // 2 % 256
    else:
        value = (noise >> np.uint64(7)) * 255
    return value.astype(np.uint8)


def crc(pixels):
    return zlib.crc32(np.ascontiguousarray(pixels).tobytes())


def resize_cases():
    rng = np.random.default_rng(7)
    sizes = [(w, h, W, H) for w, h in ((1, 1), (2, 3), (17, 31)) for W, H in ((1, 1), (5, 4), (31, 17))]
    sizes += [(500, 375, 224, 224), (375, 500, 224, 224), (500, 375, 298, 224), (64, 64, 64, 64), (64, 48, 64, 30),
              (64, 48, 20, 48), (3, 700, 224, 224), (700, 3, 224, 224), (1000, 40, 7, 3), (40, 1000, 3, 7)]
    for _ in range(60):  # around the border of the rule that orders the passes
        w, W, H = (int(v) for v in rng.integers(8, 120, 3))
        sizes.append((w, max(1, H + max(0, 2 * (w - W)) + int(rng.integers(-2, 3))), W, H))
    for _ in range(140):
        sizes.append(tuple(int(v) for v in rng.integers(1, 200, 4)))
    cases = []
    for i, (w, h, W, H) in enumerate(sizes):
        picture = Image.fromarray(generate(w, h, i % 3))
        for name, resample in FILTERS.items():
            cases.append([w, h, W, H, i % 3, name, crc(np.array(picture.resize((W, H), resample))),
                          crc(np.array(picture.resize((W, h), resample).resize((W, H), resample)))])
    return {"columns": ["w", "h", "W", "H", "kind", "filter", "pillow13", "horizontal_first"], "cases": cases}


def resized_crop_cases():
    rng = np.random.default_rng(8)
    cases = []
    for i in range(60):
        w, h = (int(v) for v in rng.integers(20, 260, 2))
        cw, ch = int(rng.integers(1, w + 1)), int(rng.integers(1, h + 1))
        x, y = int(rng.integers(0, w - cw + 1)), int(rng.integers(0, h - ch + 1))
        side = int(rng.integers(8, 100))
        picture = Image.fromarray(generate(w, h, i % 3))
        out = F.resized_crop(picture, y, x, ch, cw, [side, side], InterpolationMode.BICUBIC)
        cases.append([w, h, i % 3, x, y, cw, ch, side, crc(np.array(out))])
    return {"columns": ["w", "h", "kind", "x", "y", "crop_w", "crop_h", "side", "crc"], "cases": cases}


def evaluation_cases():
    rng = np.random.default_rng(9)
    sizes = [(64, 64), (65, 64), (64, 65), (63, 64), (97, 33), (33, 97), (500, 375), (10, 300), (300, 10), (1, 1),
             (224, 224),
             (225, 226)]
    sizes += [tuple(int(v) for v in rng.integers(5, 300, 2)) for _ in range(40)]
    cases = []
    for i, (w, h) in enumerate(sizes):
        picture = Image.fromarray(generate(w, h, i % 3))
        for mode in ("shortest", "longest", "squash"):
            for filter_name in FILTERS:
                side, fill = (64, 32, 33, 224)[i % 4], (0, 77)[i % 2]
                cfg = PreprocessCfg(size=side, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), interpolation=filter_name,
                                    resize_mode=mode, fill_color=fill)
                try:
                    out = image_transform_v2(cfg, is_train=False)(picture)
                except ValueError:  # a side of 0 pixels
                    continue
                pixels = (out * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
                cases.append([w, h, i % 3, side, mode, filter_name, fill, crc(pixels)])
    return {"columns": ["w", "h", "kind", "side", "mode", "filter", "fill", "crc"], "cases": cases}


def crop_statistics():
    """Deciles of what RandomResizedCrop draws; and crops that fall back to the centre, which are not random."""
    torch.manual_seed(1)
    cases = []
    for w, h, low, high in ((500, 375, 0.9, 1.0), (375, 500, 0.08, 1.0), (64, 64, 0.9, 1.0), (200, 120, 0.5, 1.0)):
        picture, draws = Image.new("RGB", (w, h)), []
        for _ in range(20000):
            y, x, ch, cw = RandomResizedCrop.get_params(picture, [low, high], [3 / 4, 4 / 3])
            draws.append((cw, ch, cw * ch / (w * h), x / max(1, w - cw), y / max(1, h - ch)))
        deciles = np.quantile(np.array(draws), np.linspace(0.1, 0.9, 9), axis=0).T
        cases.append({"size": [w, h], "scale": [low, high], "names": ["width", "height", "area", "x", "y"],
                      "deciles": [[round(float(v), 5) for v in row] for row in deciles]})
    fallback = []
    for w, h in ((1000, 100), (100, 1000), (999, 101), (7, 3), (3, 7), (2000, 1), (1, 2000)):
        y, x, ch, cw = RandomResizedCrop.get_params(Image.new("RGB", (w, h)), [0.99, 1.0], [3 / 4, 4 / 3])
        fallback.append([w, h, x, y, cw, ch])
    return {"random": cases, "fallback": fallback}


def png(pixels, depth, colour, interlaced=False, extra=b""):
    """A PNG of any kind: pixels[y][x][channel] at `depth` bits, no row filters."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def rows(part):
        out = b""
        for row in part:
            values = row.reshape(-1)
            if depth == 16:
                packed = values.astype(">u2").tobytes()
            elif depth == 8:
                packed = values.astype(np.uint8).tobytes()
            else:
                bits = "".join(format(int(v), f"0{depth}b") for v in values)
                bits += "0" * (-len(bits) % 8)
                packed = int(bits, 2).to_bytes(len(bits) // 8, "big")
            out += b"\0" + packed
        return out

    height, width = pixels.shape[:2]
    if interlaced:
        passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
        data = b"".join(rows(pixels[y::dy, x::dx]) for y, x, dy, dx in passes if pixels[y::dy, x::dx].size)
    else:
        data = rows(pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0,
                                                              interlaced)) + extra
            + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def png_files():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rng = np.random.default_rng(10)
    palette = rng.integers(0, 256, (256, 3), dtype=np.uint8)
    gamma, files = chunk(b"gAMA", struct.pack(">I", 100000)), {}
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    for colour, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))):
        for depth in depths:
            for interlaced in (False, True):
                pixels = rng.integers(0, 1 << depth, (13, 19, channels[colour]), dtype=np.uint32)
                if colour == 0 and depth == 16:
                    pixels[::2] %= 300  # both sides of the clip at 255
                extra = gamma
                if colour == 3:
                    count = (1 << depth) if depth < 8 else 200  # indices beyond a short palette are black
                    extra += chunk(b"PLTE", palette[:count].tobytes()) + chunk(b"tRNS",
                                                                               bytes([0, 128, 255][:min(3, count)]))
                name = f"png_c{colour}_d{depth}{'_adam7' if interlaced else ''}.png"
                files[name] = png(pixels, depth, colour, interlaced, extra)
    return files


def encoded_files():
    def save(picture, kind, **options):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        return buffer.getvalue()

    def photo(w, h):
        small = Image.fromarray(generate(max(2, w // 8), max(2, h // 8), 0))
        return small.resize((w, h), Image.Resampling.BICUBIC)

    files = png_files()
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        files[f"jpeg_{name}.jpg"] = save(photo(83, 61), "JPEG", quality=90, subsampling=subsampling)
        files[f"jpeg_{name}_progressive.jpg"] = save(photo(61, 83), "JPEG", quality=75, subsampling=subsampling,
                                                     progressive=True)
    files["jpeg_restart.jpg"] = save(photo(50, 41), "JPEG", quality=90, subsampling=2, restart_marker_blocks=3)
    files["jpeg_grey.jpg"] = save(photo(45, 33).convert("L"), "JPEG", quality=90)
    files["jpeg_grey_progressive.jpg"] = save(photo(45, 33).convert("L"), "JPEG", quality=90, progressive=True)
    files["jpeg_rgb.jpg"] = save(photo(33, 45), "JPEG", quality=90, keep_rgb=True)
    files["jpeg_1x1.jpg"] = save(photo(8, 8).crop((0, 0, 1, 1)), "JPEG")
    inks = Image.fromarray(np.concatenate([generate(40, 30, 1), generate(40, 30, 0)[..., :1]], axis=2), "CMYK")
    cmyk = save(inks, "JPEG", quality=90)
    files["jpeg_cmyk.jpg"] = cmyk
    adobe = cmyk.index(b"Adobe")
    files["jpeg_ycck.jpg"] = cmyk[:adobe + 11] + b"\x02" + cmyk[adobe + 12:]  # the marker's colour transform: YCCK
    picture = photo(57, 43)
    alpha = Image.fromarray(generate(57, 43, 1)[..., 0])
    with_alpha = picture.copy()
    with_alpha.putalpha(alpha)
    files["webp_lossy.webp"] = save(picture, "WEBP", quality=80)
    files["webp_lossless.webp"] = save(photo(31, 22), "WEBP", lossless=True)
    files["webp_lossy_alpha.webp"] = save(with_alpha, "WEBP", quality=80)
    files["webp_lossless_alpha.webp"] = save(with_alpha.crop((0, 0, 20, 15)), "WEBP", lossless=True, exact=True)
    animated = save(photo(16, 16), "WEBP", save_all=True, append_images=[photo(16, 16).rotate(90)])
    return files, animated


def main():
    assert PIL.__version__ == "13.0.0", PIL.__version__
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    files, animated = encoded_files()
    decoded = []
    for name, content in sorted(files.items()):
        (OUT / name).write_bytes(content)
        pixels = np.array(Image.open(io.BytesIO(content)).convert("RGB"))
        decoded.append([name, pixels.shape[1], pixels.shape[0], crc(pixels)])
    (OUT / "animated.webp").write_bytes(animated)
    golden = {
        "versions": {"Pillow": PIL.__version__, "torchvision": torchvision.__version__.split("+")[0],
                     "open_clip_torch": "3.3.0"},
        "resize": resize_cases(),
        "resized_crop": resized_crop_cases(),
        "evaluation": evaluation_cases(),
        "crop": crop_statistics(),
        "decode": {"columns": ["file", "width", "height", "crc"], "cases": decoded},
    }
    for name, section in golden.items():
        text = json.dumps(section, indent=None, separators=(",", ":")).replace("],[", "],\n[")
        (OUT / f"{name}.json").write_text(text + "\n")
    print("bytes:", sum(p.stat().st_size for p in OUT.iterdir()))


if __name__ == "__main__":
    main()
