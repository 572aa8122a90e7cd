#!/usr/bin/env python3
"""Fetches CLIP's vocabulary, the ImageNet class names and the prompt templates into a folder.

They come out of the PyPI wheel open_clip_torch 3.3.0, which is downloaded with pip (no dependency, nothing is
installed) and checked. Safe to repeat; asks for nothing from the network when the files are there.

    python3 tools/fetch_clip_assets.py [FOLDER]     default: lockstep/clip-assets-3.3.0 in the user's cache folder
"""
import argparse
import ast
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "open_clip_torch==3.3.0"
WHEEL_SHA256 = "c549ad5ed6bfc119cc11105033c0a2b9d7a2a4afeb40a58a09aab3da1a0043ce"
VOCABULARY = "bpe_simple_vocab_16e6.txt.gz"
# What each file must hash to, whether it was just written or lay there before.
FILE_SHA256 = {
    VOCABULARY: "924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a",
    "imagenet_classnames.txt": "8800e39242cbed4c6889376e20a49cfdaf4f84a773a6686d15c3b39972ef94c4",
    "openai_templates.txt": "717aaf1055595d318aa456669c0de6675d883ccebfa70ca12ff890b7aab710cb",
    "simple_templates.txt": "521a62d0a05a423b35c722307363a2ded56bd69f48179cfeeeefb5128f98b362",
}
# Tuples in open_clip/zero_shot_metadata.py, by the file that each becomes.
LISTS = {
    "imagenet_classnames.txt": "IMAGENET_CLASSNAMES",
    "openai_templates.txt": "OPENAI_IMAGENET_TEMPLATES",
    "simple_templates.txt": "SIMPLE_IMAGENET_TEMPLATES",
}


class FetchError(Exception):
    pass


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_complete(folder):
    return all((folder / name).is_file() and sha256(folder / name) == digest for name, digest in FILE_SHA256.items())


def download_wheel(folder):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise FetchError(f"pip could not download {PACKAGE}; run this where the package index can be reached, or "
                         f"copy the folder "
                         f"from a machine that has it (files: {', '.join(FILE_SHA256)})")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1 or sha256(wheels[0]) != WHEEL_SHA256:
        found = ", ".join(f"{wheel.name} {sha256(wheel)}" for wheel in wheels) or "nothing"
        raise FetchError(f"pip downloaded {found}; expected one wheel with SHA-256 {WHEEL_SHA256}")
    return wheels[0]


def as_line(node):
    """A class name, or a template whose place for the name is {}: from a string or a function that returns an
    f-string."""
    if isinstance(node, ast.Constant):
        return node.value.replace("{c}", "{}")
    if isinstance(node, ast.Lambda) and isinstance(node.body, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.body.values)
    raise FetchError(f"zero_shot_metadata.py line {node.lineno}: neither a string nor a template")


def read_lists(source):
    lists = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.Tuple, ast.List)):
            lists[statement.targets[0].id] = [as_line(node) for node in statement.value.elts]
    return lists


def unpack(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        (folder / VOCABULARY).write_bytes(archive.read("open_clip/" + VOCABULARY))
        lists = read_lists(archive.read("open_clip/zero_shot_metadata.py").decode())
    for name, variable in LISTS.items():
        (folder / name).write_text("".join(line + "\n" for line in lists[variable]), encoding="utf-8", newline="\n")
    for name, digest in FILE_SHA256.items():
        if sha256(folder / name) != digest:
            raise FetchError(f"{name} has SHA-256 {sha256(folder / name)}, expected {digest}")


def fetch(folder):
    """Builds the files in a folder beside, then moves each into place: the vocabulary, by which programs find it,
    last."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=folder.name + ".", dir=folder.parent) as scratch:
        scratch = pathlib.Path(scratch)
        ready = scratch / "ready"
        ready.mkdir()
        unpack(download_wheel(scratch), ready)
        folder.mkdir(exist_ok=True)
        for name in reversed(FILE_SHA256):
            os.replace(ready / name, folder / name)


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=cache / "lockstep" / "clip-assets-3.3.0")
    folder = parser.parse_args().folder.absolute()
    try:
        if not is_complete(folder):
            print(f"fetching CLIP's vocabulary, class names and templates into {folder}", file=sys.stderr)
            fetch(folder)
    except (FetchError, OSError, zipfile.BadZipFile) as error:
        print(f"fetch_clip_assets: {error}", file=sys.stderr)
        return 6
    return 0


sys.exit(main())
