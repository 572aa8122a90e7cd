"""List of the training flags of OpenCLIP, in the order in which it declares them.

Packages (PyPI): open_clip_torch==3.3.0. Run from the repository root:

    python3 ref/make_openclip_flag_list.py

Writes tests/golden/openclip_flags/3.3.0.txt, one name per line without dashes.
"""
import argparse
import pathlib
from unittest import mock

from open_clip_train.params import parse_args

TARGET = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "openclip_flags" / "3.3.0.txt"


names = []
original = argparse.ArgumentParser.add_argument


def record(parser, *flags, **settings):
    names.extend(flag.removeprefix("--") for flag in flags if flag.startswith("--") and flag != "--help")
    return original(parser, *flags, **settings)


with mock.patch.object(argparse.ArgumentParser, "add_argument", record):
    parse_args([])
TARGET.write_text("\n".join(names) + "\n")
