#!/usr/bin/env python3
"""Shows that the build refuses tests that no program would compile, in a copy of the repository.

usage: stray_tests_test.py [XML_FILE]
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from case_xml import run_test_case  # noqa: E402  found by the line above

# File -> where it belongs.
STRAY = {"tests/unit/data/shards/extra_test.cpp": "tests/unit/data, without",
         "tests/unit/tasks/extra_test.cpp": "tests/unit/tasks_front or tests/unit/tasks_engine",
         "tests/unit/misspelt/extra_test.cpp": "tests/unit/<module> (analysis, ",
         "tests/commands/sweep/extra_test.cpp": "tests/commands",
         "tests/extra_test.cpp": "tests/unit/<module> (analysis, "}


class StrayTests(unittest.TestCase):
    def test_a_test_that_no_program_compiles_is_refused_with_the_right_folder(self):
        with tempfile.TemporaryDirectory() as name:
            copy = pathlib.Path(name) / "copy"
            shutil.copytree(ROOT, copy, symlinks=True,
                            ignore=lambda folder,
                            names: [found for found in names if found.startswith(("build", ".git"))
                                                          or found in ("golden", "results")])
            for path in STRAY:
                (copy / path).parent.mkdir(parents=True, exist_ok=True)
                (copy / path).write_text("")
            (copy / "tests/unit/comm/extra_test.cpp").write_text("")  # in its place, though this half has no comm
            done = subprocess.run(["cmake", "-S", str(copy), "-B", str(copy / "build"), "-G", "Ninja",
                                   "-DLOCKSTEP_ENGINE=OFF"], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        found = dict(line.strip().split(": no program compiles it; move it to ")
                     for line in done.stderr.splitlines() if "no program compiles it" in line)
        self.assertEqual(sorted(found), sorted(STRAY), done.stderr)
        for path, place in STRAY.items():
            self.assertTrue(found[path].startswith(place), found[path])


if __name__ == "__main__":
    sys.exit(run_test_case(StrayTests, "python3 tests/tools/stray_tests_test.py"))
