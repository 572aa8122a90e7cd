#!/usr/bin/env python3
"""Holds the includes under src/ to the table of ARCHITECTURE.md: each folder may include only what its row lists, and only the engine's
folders may include LibTorch. Headers include at most ATen/core/TensorBody.h of it; those named *_internal.h may include more, and only .cpp files
of their own folder may include them. Inside a folder no include leads back: a header with its .cpp counts as one, and none of them reaches itself
through others. Also limits Trainer::run and Trainer::step to 30 lines."""
import pathlib
import re
import sys

TORCH_FREE = {"core", "config", "hw", "plan", "data", "stats", "record", "logs", "checkpoint", "analysis", "published", "draw", "predict", "sweep",
              "doctor", "tasks", "commands"}
BELOW_TRAIN = {"core", "config", "hw", "plan", "data", "stats", "record", "checkpoint", "comm", "nn", "optim", "models", "parallel"}
WITH_TASKS = BELOW_TRAIN | {"train", "tasks", "commands"}
ALLOWED = {
    "core": set(),
    "config": {"core"}, "hw": {"core"}, "stats": {"core"}, "checkpoint": {"core"}, "draw": {"core"},
    "plan": {"core", "config"},
    "record": {"core", "stats"},
    "logs": {"core", "record"},
    "data": {"core", "config", "record"},
    "tasks": {"core", "config", "hw", "plan", "data", "record"},
    "commands": {"core", "config", "plan", "tasks"},
    "analysis": {"core", "config", "hw", "stats", "record", "logs", "draw", "tasks", "commands"},
    "published": {"core", "record", "logs", "draw", "analysis"},
    "predict": {"core", "config", "hw", "plan", "stats", "record"},
    "sweep": {"core", "config", "hw", "plan", "stats", "record", "tasks", "commands"},
    "doctor": {"core", "config", "hw", "plan", "record"},
    "comm": {"core", "plan", "record", "hw"},
    "nn": {"core", "comm", "config"},
    "optim": {"core", "comm", "config"},
    "models": {"core", "config", "plan", "data", "comm", "nn"},
    "parallel": {"core", "plan", "record", "comm", "optim"},
    "train": BELOW_TRAIN,
    "tasks_engine": WITH_TASKS,
    "infer": WITH_TASKS | {"tasks_engine"},
    "bench": WITH_TASKS | {"tasks_engine"},
    "cli": None,
}
TORCH = re.compile(r'#include [<"](torch|ATen|c10|caffe2)/')
C10D = re.compile(r'#include [<"]torch/csrc/distributed/')
LOCAL = re.compile(r'#include "([a-z0-9_]+/.*)"')
HEADER_MAY_INCLUDE = "#include <ATen/core/TensorBody.h>"
INTERNAL = re.compile(r'#include "(.*)_internal\.h"')
MAX_TRAINER_LINES = 30
CIRCLES_LEFT = set()  # folders whose back arrows are still there; none may join


def folder_of(parts) -> str:
    """The row of the table that a file belongs to: src/tasks has two, "tasks" (front) and "tasks_engine"."""
    is_engine = parts[0] == "tasks" and ("engine" in parts or parts[1].startswith("tasks_engine"))
    return "tasks_engine" if is_engine else parts[0]


def task_of(parts) -> str:
    """The task whose folder a file lies in, or "" (src/tasks/front is of all tasks)."""
    return parts[1] if parts[0] == "tasks" and len(parts) > 2 and parts[1] != "front" else ""


def problems_of(path: pathlib.Path, parts, front: bool):
    folder, task = folder_of(parts), task_of(parts)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = LOCAL.match(line)
        included = found[1].split("/") if found else [""]
        other, other_task = folder_of(included), task_of(included)
        if other in ALLOWED and other != folder and ALLOWED[folder] is not None and other not in ALLOWED[folder]:
            yield f"{path}:{number}: {folder}/ may not include {other}/"
        if task and other_task and task != other_task:
            yield f"{path}:{number}: task {task} may not include task {other_task}"
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
            problems += problems_of(path, parts, front=parts[:2] in (("cli", "front"), ("cli", "common")))
    print("\n".join(problems) if problems else "include directions: ok")
    return 1 if problems else 0


sys.exit(main())
