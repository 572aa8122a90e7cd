#!/usr/bin/env python3
"""Holds the includes under src/ to the table in ARCHITECTURE.md: each folder may include only what its row lists, and
does include something of each folder that it lists. LibTorch is included only where the sentence below the table says.
Headers include at most ATen/core/TensorBody.h of it; those named *_internal.h may include more, and only .cpp files of
their own folder may include them. Inside a folder no include leads back: a header with its .cpp counts as one, and none
of them reaches itself through others. The front program includes nothing of the engine's half and neither program
anything of the other. Files of src/ are named from src/ on, in quotes. Of a task in OUTSIDE_USES only the files named
there use anything: who cuts the task out deletes its folder and edits those. Also limits Trainer::run and Trainer::step
to 30 lines, holds output to core/print.h and core/log.h, which let no text of others steer a terminal, JSON and TOML to
core/json.h and core/toml.h, whose parsers have limits, and threads of kernels to nn/parallel_for.h.

usage: check_includes.py [ROOT]     ROOT: the repository to look at; default: the one that this file lies in
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
C10D = "torch/csrc/distributed/"
HEADER_MAY_INCLUDE = "ATen/core/TensorBody.h"
INTERNAL = "_internal.h"
MAX_TRAINER_LINES = 30
# What only some files may call -> those files, and what all others call instead.
RESERVED = [
    (
        re.compile(r"std::(cout|cerr|clog|v?printf|v?fprintf|puts|fputs|putchar|fputc|fwrite)\b|fmt::v?print\("),
        {"core/print.cpp", "core/log.cpp", "cli/common/guarded_main.cpp", "infer/print_lines.cpp"},
        "use core::print or core::log_info, which clean the text",
    ),
    (  # the libraries' own take any depth, and time that grows with the square of the number of keys
        re.compile(r"\b([Jj]son|toml)::(parse|parse_file)\("),
        {"core/toml.cpp"},
        "use core::parse_json or core::parse_toml, which have limits",
    ),
    (
        re.compile(r"\bat::parallel_for\("),
        {"nn/parallel_for.cpp"},
        "use nn::parallel_for: in a file without OpenMP this one has a single thread",
    ),
]
TABLE_ROW = re.compile(r"\| ([a-z*/]+) \| [^|]* \| ([^|]+) \|")
ENGINE_FOLDERS = re.compile(r"LibTorch is included only in ([^;]*);")
# Task -> files outside its folder that may include something of it.
OUTSIDE_USES = {"imagenet": {"tasks/tasks_front.cpp", "tasks/tasks_engine.cpp", "bench/loader_case.cpp",
                             "bench/step_classifier.cpp"}}
# As the table names the two halves of src/tasks, and their short names here.
SHORT_NAMES = {"tasks/*/front": "tasks", "tasks/front": "tasks", "tasks/*/engine": "tasks_engine"}


class Table:
    """The table of modules in ARCHITECTURE.md."""

    def __init__(self, root: pathlib.Path):
        page = (root / "ARCHITECTURE.md").read_text()
        self.allowed = {}  # folder -> the others that it may include; None: cli, see may_include
        for folder, cell in TABLE_ROW.findall(page):
            self.allowed[self.short(folder)] = self.folders_of(cell)
        named = ENGINE_FOLDERS.search(" ".join(page.split()))
        if not self.allowed or not named:
            sys.exit(
                "ARCHITECTURE.md: its table of modules, or the sentence of where LibTorch is included, was not found"
            )
        self.engine = {self.short(name) for name in re.split(r", | and ", named[1])}

    def may_include(self, parts, included):
        """Whether the file at `parts` may include a file of another row of the table."""
        folder, other = folder_of(parts), folder_of(included)
        if other == folder:
            # The two programs share cli/common, which includes neither.
            return folder != "cli" or included[1] in ("common", parts[1])
        if folder == "cli":
            return parts[1] == "engine" or other not in self.engine
        return other in self.allowed[folder]

    def has_torch(self, parts):
        return folder_of(parts) in self.engine or "/".join(parts[:2]) in self.engine

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


def included_files(path: pathlib.Path):
    """(line number, whether in quotes, name) of each include of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1] == '"', found[2]


def problems_of(path: pathlib.Path, root: pathlib.Path, table: Table):
    for number, is_quoted, name in included_files(path):
        for problem in arrow_problems(path, root, name, is_quoted, table):
            yield f"{path}:{number}: {problem}"
        for problem in torch_problems(path, path.relative_to(root / "src").parts, name, table):
            yield f"{path}:{number}: {problem}"


def arrow_problems(path, root, name, is_quoted, table):
    """What speaks against including a file of src/."""
    parts, included = path.relative_to(root / "src").parts, name.split("/")
    is_ours = folder_of(included) in table.allowed or included[0] == "tasks"
    is_relative = ".." in included or "." in included or (is_quoted and not is_ours and (path.parent / name).exists())
    if is_relative or (is_ours and not is_quoted):
        yield f"{name}: name the files of src/ from there on, in quotes"
        return
    if not is_ours or len(included) < 2:
        return
    if not table.may_include(parts, included):
        half = "/" + parts[1] if parts[0] == "cli" else ""
        part = "/" + included[1] if included[0] == "cli" else ""
        yield f"{folder_of(parts)}{half}/ may not include {folder_of(included)}{part}/"
    task, other_task = task_of(parts), task_of(included)
    if task and other_task and task != other_task:
        yield f"task {task} may not include task {other_task}"
    elif other_task in OUTSIDE_USES and not task and "/".join(parts) not in OUTSIDE_USES[other_task]:
        allowed = ", ".join(sorted(OUTSIDE_USES[other_task]))
        yield f"{name}: outside its folder only {allowed} may include something of task {other_task}"
    if name.endswith(INTERNAL) and (path.suffix == ".h" or "/".join(included[:-1]) != "/".join(parts[:-1])):
        yield f"{name} is for the .cpp files of its own folder"


def torch_problems(path, parts, name, table):
    """What speaks against including a file of LibTorch."""
    if not TORCH.match(name):
        return
    if not table.has_torch(parts):
        yield f"{folder_of(parts)}/ is free of LibTorch"
    if name.startswith(C10D) and folder_of(parts) != "comm":
        yield "only comm/ may include c10d"
    if path.suffix == ".h" and not path.stem.endswith("_internal") and name != HEADER_MAY_INCLUDE:
        yield f"a header may include of LibTorch only {HEADER_MAY_INCLUDE}; move the rest into the .cpp"
    if name == "torch/torch.h":
        yield "torch/torch.h costs 12 s a file; include what is used"


def cycles_in(root: pathlib.Path, folder: pathlib.Path):
    """Circles of includes between the files of a folder and its subfolders, each as a list that ends where it
    begins."""
    includes = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".h", ".cpp"):
            unit = str(path.relative_to(root / "src").with_suffix("")).removesuffix("_internal")
            headers = [name.removesuffix(".h") for _, _, name in included_files(path) if name.endswith(".h")]
            named = [name.removesuffix("_internal") for name in headers]
            own = (name for name in named if name != unit and name.startswith(folder.name + "/"))
            includes.setdefault(unit, set()).update(own)
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


def unused_arrows(root: pathlib.Path, table: Table):
    """Rows of the table that allow what no file does: the table is to show what leans on what."""
    used = {}
    for path in (root / "src").rglob("*"):
        if path.suffix in (".h", ".cpp"):
            folder = folder_of(path.relative_to(root / "src").parts)
            names = [name for _, _, name in included_files(path) if "/" in name]
            used.setdefault(folder, set()).update(folder_of(name.split("/")) for name in names)
    for folder, allowed in table.allowed.items():
        if folder in used:
            for other in sorted((allowed or set()) - used[folder] - {folder}):
                yield f"ARCHITECTURE.md: {folder}/ may include {other}/, and no file of it does: take it out of the row"


def reserved_problems(path, parts):
    """Calls of what other files are to wrap."""
    for pattern, may_call, advice in RESERVED:
        if "/".join(parts) in may_call:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := pattern.search(line):
                yield f"{path}:{number}: {found[0].rstrip('(')}: {advice}"


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
                problems += problems_of(path, root, table)
                problems += reserved_problems(path, path.relative_to(root / "src").parts)
    problems += unused_arrows(root, table)
    print("\n".join(problems) if problems else "include directions: ok")
    return 1 if problems else 0


sys.exit(main())
