"""How OpenCLIP prepares pictures for the weights that it knows by a tag.

Packages (PyPI): open_clip_torch==3.3.0. Run from the repository root:

    python3 ref/make_pretrained_list.py

Writes tests/golden/pretrained/3.3.0.txt: model, tag, mean, standard deviation, interpolation and resize mode, one tag
per line.
"""
import pathlib

from open_clip.pretrained import get_pretrained_cfg, list_pretrained

TARGET = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "pretrained" / "3.3.0.txt"


def line(model, tag):
    settings = get_pretrained_cfg(model, tag)
    numbers = [" ".join(f"{value:g}" for value in settings[name]) for name in ("mean", "std")]
    return "\t".join([model, tag, *numbers, settings["interpolation"], settings["resize_mode"]])


TARGET.parent.mkdir(exist_ok=True)
TARGET.write_text("".join(line(model, tag) + "\n" for model, tag in list_pretrained()))
