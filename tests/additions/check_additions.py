#!/usr/bin/env python3
"""Adds one toy of each kind (a task, an option, ...) to a scratch copy of the repository and shows that it works.

usage: check_additions.py [--no-build] [--only NAME]... [--xml FILE]

Each folder beside this file is one addition:
  files/       the new files, by their path in the repository
  edits.json   {"max_touched": N, "edits": [{"file": PATH, "after": TEXT, "insert": TEXT}]}: what existing files gain,
               each behind a text that stands in its file once; N is the most files that may be touched, tests and
               pages included
  show.sh      shows the addition in the built programs, which lie in $LOCKSTEP_BUILD; it begins in the empty folder
               $SCRATCH, and files beside this one lie in $ADDITIONS

An addition fails when the copy differs from the repository in more files than allowed, when a text to edit behind is
not found exactly once, when a new file exists already, or when show.sh fails. All fail when the copy with all additions
does not compile, when tools/check_includes.py or tools/check_docs.py refuses it, or when its tests of TESTS fail.
Pages that `lockstep config reference` writes count as touched by nobody; any other page that it changes is refused.
Exit code: 0 when all work, else 1.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from case_xml import write_cases  # noqa: E402  found by the line above

ROOT = HERE.parent.parent
SHOW_SECONDS = 300
# Test programs that look at lists which the additions make longer.
TESTS = ["analysis", "logs", "unit_commands"]
GENERATED = re.compile(r"docs/options(\.md|/[\w-]+\.md)")


class Refused(Exception):
    """Why an addition does not work."""


class Addition:
    """One folder of additions, and what became of it."""

    def __init__(self, folder):
        self.folder, self.name = folder, folder.name
        description = json.loads((folder / "edits.json").read_text())
        self.edits, self.max_touched = description["edits"], description["max_touched"]
        base = folder / "files"
        self.files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())
        self.touched = []  # existing files that differ in the copy
        self.problem, self.seconds = "", 0.0

    def apply(self, copy):
        """Copies the new files, edits the old ones and counts what has changed since the addition before."""
        for edit in self.edits:
            self.edit_file(copy, edit)
        for path in self.files:
            if (copy / path).exists():
                raise Refused(f"the new file {path} exists already")
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / "files" / path, copy / path)
        self.touched = changed_files(copy)
        keep_state(copy)
        if len(self.touched) > self.max_touched:
            raise Refused(f"touches {', '.join(self.touched)}: {len(self.touched)} existing files, "
                          f"allowed {self.max_touched}")

    @staticmethod
    def edit_file(copy, edit):
        path = copy / edit["file"]
        if not path.is_file():
            raise Refused(f"there is no {edit['file']} to edit")
        text = path.read_text()
        count = text.count(edit["after"])
        if count != 1:
            raise Refused(f"{edit['file']} holds {count} times, not once: {edit['after']!r}")
        path.write_text(text.replace(edit["after"], edit["after"] + edit["insert"]))

    def show(self, build, scratch):
        """Runs show.sh; Refused with the end of its output."""
        scratch.mkdir()
        environment = dict(os.environ, LOCKSTEP_BUILD=str(build), SCRATCH=str(scratch), ADDITIONS=str(HERE))
        output = run(["bash", "-euo", "pipefail", str(self.folder / "show.sh")], scratch, environment, SHOW_SECONDS)
        if output is not None:
            raise Refused("show.sh failed:\n" + output)


def run(command, folder, environment=None, timeout=None):
    """None when the command succeeds, else the end of what it wrote. Its children end with it."""
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    try:
        output = process.communicate(timeout=timeout)[0]
    except BaseException as stop:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(stop, subprocess.TimeoutExpired):
            return f"{command[0]} ran longer than {timeout} s"
        raise
    return None if process.returncode == 0 else f"exit code {process.returncode}\n{output[-4000:]}"


def copy_repository(target):
    """Tracked files and those that are neither tracked nor ignored."""
    list_files = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(list_files, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in sorted(set(names) - {""}):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def git(copy, *arguments):
    identity = ["-c", "user.name=additions", "-c", "user.email=additions@localhost"]
    return subprocess.run(["git", "-C", copy, *identity, *arguments], check=True, capture_output=True, text=True).stdout


def keep_state(copy):
    """What changed_files counts from."""
    git(copy, "add", "--all")
    git(copy, "commit", "--quiet", "--allow-empty", "--no-verify", "--message", "kept")


def changed_files(copy):
    """Files of the state before that differ or are gone."""
    return git(copy, "diff", "--name-only", "-z", "HEAD").split("\0")[:-1]


def single_files(additions):
    """CMake's pattern of the new sources: compiled alone, they leave the units of the others as ccache knows them."""
    files = [path for addition in additions for path in addition.files]
    sources = [str(path).replace(".", "[.]") for path in files if path.suffix == ".cpp"]
    return "/(" + "|".join(sources) + ")$" if sources else ""


def must(command, copy, what):
    """Refused with the end of what was written where the command fails."""
    output = run(command, copy)
    if output is not None:
        raise Refused(f"{what}:\n{output}")


def build(copy, folder, additions):
    """Both programs and some tests with all additions; Refused with the end of what was written."""
    configure = ["cmake", "-S", str(copy), "-B", str(folder), "-G", "Ninja",
                 f"-DLOCKSTEP_SINGLE_FILES={single_files(additions)}"]
    targets = ["lockstep", "lockstep-engine", *(f"test_{name}" for name in TESTS)]
    for command in configure, ["ninja", "-C", str(folder), "-j2", *targets]:
        must(command, copy, "the copy with all additions does not build")


def check_whole(copy, folder):
    """Pages, includes and tests of the copy with all additions."""
    must([str(folder / "lockstep"), "config", "reference", "--output", "docs"], copy, "the reference was not written")
    by_hand = [name for name in changed_files(copy) if not GENERATED.fullmatch(name)]
    if by_hand:
        raise Refused(f"the reference changed {', '.join(by_hand)}")
    for tool in "check_includes.py", "check_docs.py":
        must([sys.executable, f"tools/{tool}"], copy, f"tools/{tool} refuses the copy with all additions")
    for name in TESTS:
        must([str(folder / f"test_{name}")], copy, f"test_{name} fails with all additions")


def attempt(additions, action):
    """Does something with each addition that has worked so far."""
    for addition in additions:
        if addition.problem:
            continue
        begin = time.monotonic()
        try:
            action(addition)
        except Refused as refused:
            addition.problem = str(refused)
        addition.seconds += time.monotonic() - begin


def check(additions, scratch, with_build):
    """Applies, builds and shows; what fails is noted in the addition."""
    copy = scratch / "copy"
    programs = copy / "build"  # below the sources, as anywhere: ccache sees paths relative to their root
    copy.mkdir()
    copy_repository(copy)
    git(copy, "init", "--quiet")
    keep_state(copy)
    attempt(additions, lambda addition: addition.apply(copy))
    applied = [addition for addition in additions if not addition.problem]
    if not with_build or len(applied) < len(additions):
        return
    try:
        build(copy, programs, applied)
        check_whole(copy, programs)
    except Refused as refused:
        for addition in applied:
            addition.problem = str(refused)
    attempt(applied, lambda addition: addition.show(programs, scratch / f"show_{addition.name}"))


def print_table(additions):
    print(f"{'addition':<14}{'new files':>10}{'touched':>9}{'allowed':>9}  result")
    for addition in additions:
        result = addition.problem.splitlines()[0] if addition.problem else "works"
        counts = f"{len(addition.files):>10}{len(addition.touched):>9}{addition.max_touched:>9}"
        print(f"{addition.name:<14}{counts}  {result}")
    for problem in dict.fromkeys(addition.problem for addition in additions if "\n" in addition.problem):
        print("\n" + problem)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="only apply and count")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this addition; may be repeated")
    parser.add_argument("--xml", type=pathlib.Path, metavar="FILE", help="write the cases as GoogleTest does")
    args = parser.parse_args()
    folders = sorted(path.parent for path in HERE.glob("*/edits.json"))
    additions = [Addition(folder) for folder in folders if not args.only or folder.name in args.only]
    if not additions or len(additions) < len(args.only or []):
        parser.error(f"known additions: {', '.join(folder.name for folder in folders)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the folder is removed
    with tempfile.TemporaryDirectory(prefix="lockstep-additions-") as scratch:
        check(additions, pathlib.Path(scratch), with_build=not args.no_build)
    print_table(additions)
    if args.xml:
        write_cases(args.xml, "Additions", [(addition.name, addition.seconds, addition.problem,
                                             f"python3 tests/additions/check_additions.py --only {addition.name}")
                                            for addition in additions])
    return 1 if any(addition.problem for addition in additions) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
