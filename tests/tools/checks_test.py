#!/usr/bin/env python3
"""Shows what the checks of sources in tools/ look at, in small repositories, and what they say of tools that are
missing.

usage: checks_test.py [XML_FILE]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from case_xml import run_test_case  # noqa: E402  found by the line above

LONG = "A subject that goes on and on until it is longer than what a list of commits can show"
PROGRAMS = "awk bash cat dirname env git grep mkdir nproc python3 sed sh sort wc xargs".split()
SCRIPTS = ("base_commit.sh", "check_commits.sh", "check_sources.sh", "format.sh", "tidy.sh")


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.origin, self.programs = self.folder / "origin", self.folder / "programs"
        (self.origin / "tools").mkdir(parents=True)
        for name in SCRIPTS:
            shutil.copy2(ROOT / "tools" / name, self.origin / "tools")
        for name in ("check_includes.py", "check_docs.py", "tidy_units.py"):
            (self.origin / "tools" / name).write_text("")
        self.make_programs()
        self.environment = {**os.environ, "PATH": str(self.programs), "GIT_CONFIG_GLOBAL": "/dev/null"}
        for key in ("GIT_AUTHOR", "GIT_COMMITTER"):
            self.environment |= {key + "_NAME": "A", key + "_EMAIL": "a@example.org"}
        self.git(self.origin, "init", "--quiet", "--initial-branch", "main")
        self.commit(self.origin, "First")

    def make_programs(self):
        """A folder with what the scripts start, but none of clang's checkers."""
        self.programs.mkdir()
        for name in PROGRAMS:
            (self.programs / name).symlink_to(shutil.which(name))

    def add_program(self, name, text):
        path = self.programs / name
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    def git(self, where, *arguments):
        return subprocess.run(["git", *arguments], cwd=where, env=self.environment, check=True, capture_output=True,
                              text=True).stdout.strip()

    def commit(self, where, subject, *files):
        for name in files:
            (where / name).write_text("int number = 1;\n")
        self.git(where, "add", "--all")
        self.git(where, "commit", "--quiet", "--allow-empty", "--message", subject)

    def clone(self, *options):
        self.git(self.folder, "clone", "--quiet", *options, f"file://{self.origin}", "clone")
        return self.folder / "clone"

    def run_script(self, where, name, *arguments):
        done = subprocess.run([str(where / "tools" / name), *arguments], cwd=where, env=self.environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def test_a_fresh_clone_has_its_last_commit_checked(self):
        self.commit(self.origin, LONG)
        code, output = self.run_script(self.clone(), "check_commits.sh")
        self.assertEqual(code, 1, output)
        self.assertIn(LONG, output)

    def test_a_clone_without_history_has_its_only_commit_checked(self):
        self.commit(self.origin, LONG)
        code, output = self.run_script(self.clone("--depth", "1"), "check_commits.sh")
        self.assertEqual(code, 1, output)

    def test_every_commit_of_a_branch_is_checked_and_none_of_main(self):
        self.commit(self.origin, LONG)
        clone = self.clone()
        self.git(clone, "switch", "--quiet", "--create", "work")
        self.commit(clone, "Short")
        code, output = self.run_script(clone, "check_commits.sh")
        self.assertEqual(code, 0, output)
        self.assertIn("1 looked at", output)
        self.commit(clone, LONG + " on a branch")
        self.commit(clone, "Short again")
        code, output = self.run_script(clone, "check_commits.sh")
        self.assertEqual(code, 1, output)
        self.assertIn("on a branch", output)

    def test_a_merge_on_main_has_what_it_brought_checked(self):
        self.git(self.origin, "switch", "--quiet", "--create", "work")
        self.commit(self.origin, LONG)
        self.commit(self.origin, "Short")
        self.git(self.origin, "switch", "--quiet", "main")
        self.git(self.origin, "merge", "--quiet", "--no-ff", "--message", "Merge", "work")
        code, output = self.run_script(self.clone(), "check_commits.sh")
        self.assertEqual(code, 1, output)

    def test_clang_tidy_sees_what_the_last_commit_of_a_fresh_clone_changed(self):
        self.commit(self.origin, "A source", "changed.cpp")
        for name in ("clang-tidy", "cmake", "ninja"):
            self.add_program(name, "exit 0")
        clone = self.clone()
        code, output = self.run_script(clone, "tidy.sh")
        self.assertEqual(code, 0, output)
        self.assertEqual((clone / "build/tidy-OFF/files").read_text(), "changed.cpp\n")

    def test_what_is_not_checked_is_named(self):
        code, output = self.run_script(self.origin, "check_sources.sh")
        self.assertEqual(code, 0, output)
        self.assertIn("not checked: the layout of the sources, no clang-format", output)
        self.assertIn("not checked: mistakes in what has changed, no clang-tidy", output)

    def test_another_version_of_clang_format_is_named(self):
        self.add_program("clang-format", "echo 'clang-format version 19.1.0'")
        code, output = self.run_script(self.origin, "check_sources.sh")
        self.assertEqual(code, 0, output)
        self.assertIn("no clang-format 14: clang-format is version 19", output)

    def test_clang_format_14_is_taken_by_its_long_name_and_its_findings_end_the_check(self):
        self.commit(self.origin, "A source", "changed.cpp")
        self.add_program("clang-format-14", '[ "$1" = --version ] && echo "clang-format version 14.0.6" && exit\n'
                                            'for file in "$@"; do :; done; echo "$file: not laid out"; exit 1')
        code, output = self.run_script(self.origin, "check_sources.sh")
        self.assertEqual(code, 1, output)
        self.assertIn("changed.cpp: not laid out", output)


if __name__ == "__main__":
    sys.exit(run_test_case(Checks, "python3 tests/tools/checks_test.py"))
