#!/usr/bin/env python3
"""Holds the includes under src/ to the table of ARCHITECTURE.md: each folder may include only what its row lists, and only the engine's
folders may include LibTorch. Headers include at most ATen/core/TensorBody.h of it; those named *_internal.h may include more, and only .cpp files
of their own folder may include them. Inside a folder no include leads back: a header with its .cpp counts as one, and none of them reaches itself
through others. Also limits Trainer::run and Trainer::step to 30 lines."""
import pathlib
import re
import sys

TORCH_FREE = {"core", "config", "hw", "plan", "data", "record", "report", "predict", "sweep", "doctor"}
BELOW_TRAIN = {"core", "config", "hw", "plan", "data", "record", "comm", "nn", "optim", "models", "parallel"}
ALLOWED = {
    "core": set(),
    "config": {"core"}, "hw": {"core"}, "record": {"core"},
    "plan": {"core", "config"},
    "data": {"core", "config", "record"},
    "report": {"core", "config", "hw", "plan", "record"},
    "predict": {"core", "config", "hw", "plan", "record"},
    "sweep": {"core", "config", "hw", "plan", "record"},
    "doctor": {"core", "config", "hw", "plan", "record"},
    "comm": {"core", "plan", "record", "hw"},
    "nn": {"core", "comm", "config"},
    "optim": {"core", "comm", "config"},
    "models": {"core", "config", "plan", "data", "comm", "nn"},
    "parallel": {"core", "plan", "record", "comm", "optim"},
    "train": BELOW_TRAIN,
    "infer": BELOW_TRAIN | {"train"},
    "bench": BELOW_TRAIN | {"train"},
    "cli": None,
}
TORCH = re.compile(r'#include [<"](torch|ATen|c10|caffe2)/')
C10D = re.compile(r'#include [<"]torch/csrc/distributed/')
LOCAL = re.compile(r'#include "([a-z0-9_]+)/')
HEADER_MAY_INCLUDE = "#include <ATen/core/TensorBody.h>"
INTERNAL = re.compile(r'#include "(.*)_internal\.h"')
MAX_TRAINER_LINES = 30
CIRCLES_LEFT = {"cli", "record", "report", "train"}  # folders whose back arrows are still there; none may join


def problems_of(path: pathlib.Path, folder: str, front: bool):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = LOCAL.match(line)
        if found and found[1] in ALLOWED and found[1] != folder and ALLOWED[folder] is not None and found[1] not in ALLOWED[folder]:
            yield f"{path}:{number}: {folder}/ may not include {found[1]}/"
        if TORCH.match(line) and (folder in TORCH_FREE or front):
            yield f"{path}:{number}: {folder}/ is free of LibTorch"
        if C10D.match(line) and folder != "comm":
            yield f"{path}:{number}: only comm/ may include c10d"
        is_header, is_internal = path.suffix == ".h", path.stem.endswith("_internal")
        if TORCH.match(line) and is_header and not is_internal and not line.startswith(HEADER_MAY_INCLUDE):
            yield f"{path}:{number}: a header may include of LibTorch only ATen/core/TensorBody.h; move the rest into the .cpp"
        internal = INTERNAL.match(line)
        if internal and (is_header or pathlib.Path(internal[1]).parent.name != path.parent.name):
            yield f"{path}:{number}: {internal[1]}_internal.h is for the .cpp files of its own folder"
        if "torch/torch.h" in line:
            yield f"{path}:{number}: torch/torch.h costs 12 s a file; include what is used"


def cycles_in(root: pathlib.Path, folder: pathlib.Path):
    """Circles of includes between the files of a folder and its subfolders, each as a list that ends where it begins."""
    includes = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".h", ".cpp"):
            unit = str(path.relative_to(root / "src").with_suffix("")).removesuffix("_internal")
            named = [name.removesuffix("_internal") for name in re.findall(r'^#include "([^"]+)\.h"', path.read_text(), re.M)]
            includes.setdefault(unit, set()).update(name for name in named if name != unit and name.startswith(folder.name + "/"))
    done = set()

    def visit(unit, way):
        if unit in way:
            yield way[way.index(unit):] + [unit]
        elif unit not in done:
            for other in sorted(includes.get(unit, ())):
                yield from visit(other, way + [unit])
            done.add(unit)

    for unit in includes:
        yield from visit(unit, [])


def trainer_problems(root: pathlib.Path):
    path = root / "src/train/trainer.cpp"
    lines = path.read_text().splitlines() if path.exists() else []
    for number, line in enumerate(lines):
        found = re.match(r"\S.*\bTrainer::(run|step)\(", line)
        if found:
            length = lines[number:].index("}") + 1
            if length > MAX_TRAINER_LINES:
                yield f"{path}:{number + 1}: Trainer::{found[1]} has {length} lines, at most {MAX_TRAINER_LINES}"


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    problems = list(trainer_problems(root))
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in (".h", ".cpp"):
            parts = path.relative_to(root / "src").parts
            problems += problems_of(path, parts[0], front=parts[:2] in (("cli", "front"), ("cli", "common")))
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir() and path.name not in CIRCLES_LEFT):
        problems += [f"{folder}: includes lead back: {' -> '.join(circle)}" for circle in cycles_in(root, folder)]
    print("\n".join(problems) if problems else "include directions: ok")
    return 1 if problems else 0


sys.exit(main())
