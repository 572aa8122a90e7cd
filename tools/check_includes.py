#!/usr/bin/env python3
"""Holds the includes under src/ to the table in ARCHITECTURE.md: each folder may include only what its row lists, and LibTorch
only where the sentence below the table says. Headers include at most ATen/core/TensorBody.h of it; those named *_internal.h may
include more, and only .cpp files of their own folder may include them. Inside a folder no include leads back: a header with its
.cpp counts as one, and none of them reaches itself through others. Also limits Trainer::run and Trainer::step to 30 lines.

usage: check_includes.py [ROOT]     ROOT: the repository to look at; default: the one that this file lies in
"""
import pathlib
import re
import sys

TORCH = re.compile(r'#include [<"](torch|ATen|c10|caffe2)/')
C10D = re.compile(r'#include [<"]torch/csrc/distributed/')
LOCAL = re.compile(r'#include "([a-z0-9_]+/.*)"')
HEADER_MAY_INCLUDE = "#include <ATen/core/TensorBody.h>"
INTERNAL = re.compile(r'#include "(.*)_internal\.h"')
MAX_TRAINER_LINES = 30
TABLE_ROW = re.compile(r"\| ([a-z*/]+) \| [^|]* \| ([^|]+) \|")
ENGINE_FOLDERS = re.compile(r"LibTorch is included only in ([^;]*);")
# As the table names the two halves of src/tasks, and their short names here.
SHORT_NAMES = {"tasks/*/front": "tasks", "tasks/front": "tasks", "tasks/*/engine": "tasks_engine"}


class Table:
    """The table of modules in ARCHITECTURE.md."""

    def __init__(self, root: pathlib.Path):
        page = (root / "ARCHITECTURE.md").read_text()
        self.allowed = {}  # folder -> the others that it may include; None: all
        for folder, cell in TABLE_ROW.findall(page):
            self.allowed[self.short(folder)] = self.folders_of(cell)
        named = ENGINE_FOLDERS.search(" ".join(page.split()))
        if not self.allowed or not named:
            sys.exit("ARCHITECTURE.md: its table of modules, or the sentence of where LibTorch is included, was not found")
        self.engine = {self.short(name) for name in re.split(r", | and ", named[1])}

    @staticmethod
    def short(name):
        return SHORT_NAMES.get(name, name)

    def folders_of(self, cell):
        """"core, config", "as train, and train", "-" or "everything of its half"."""
        if cell == "-":
            return set()
        if cell.startswith("everything"):
            return None
        found = set()
        for item in cell.replace("and ", "").split(", "):
            found |= self.allowed[self.short(item[3:])] if item.startswith("as ") else {self.short(item)}
        return found


def folder_of(parts) -> str:
    """The row of the table that a file belongs to: src/tasks has two, "tasks" (front) and "tasks_engine"."""
    is_engine = parts[0] == "tasks" and ("engine" in parts or parts[1].startswith("tasks_engine"))
    return "tasks_engine" if is_engine else parts[0]


def task_of(parts) -> str:
    """The task whose folder a file lies in, or "" (src/tasks/front is of all tasks)."""
    return parts[1] if parts[0] == "tasks" and len(parts) > 2 and parts[1] != "front" else ""


def problems_of(path: pathlib.Path, parts, front: bool, table: Table):
    folder, task = folder_of(parts), task_of(parts)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = LOCAL.match(line)
        included = found[1].split("/") if found else [""]
        other, other_task = folder_of(included), task_of(included)
        allowed = table.allowed[folder]
        if other in table.allowed and other != folder and allowed is not None and other not in allowed:
            yield f"{path}:{number}: {folder}/ may not include {other}/"
        if task and other_task and task != other_task:
            yield f"{path}:{number}: task {task} may not include task {other_task}"
        if TORCH.match(line) and folder not in table.engine and (folder != "cli" or front):
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
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if root.is_dir() else root.parent.parent
    table = Table(root)
    problems = list(trainer_problems(root))
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        if folder.name not in table.allowed and folder.name != "tasks":
            problems.append(f"{folder}: has no row in the table of ARCHITECTURE.md")
            continue
        problems += [f"{folder}: circle of includes: {' -> '.join(circle)}" for circle in cycles_in(root, folder)]
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".cpp"):
                parts = path.relative_to(root / "src").parts
                problems += problems_of(path, parts, parts[:2] in (("cli", "front"), ("cli", "common")), table)
    print("\n".join(problems) if problems else "include directions: ok")
    return 1 if problems else 0


sys.exit(main())
