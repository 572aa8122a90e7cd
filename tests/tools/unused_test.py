#!/usr/bin/env python3
"""Shows what tools/find_unused.py takes for used and what not, on a small program.

usage: unused_test.py [XML_FILE]
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from case_xml import run_test_case  # noqa: E402  found by the line above

HEADER = """#pragma once
namespace lockstep::core {
void needed();
void needed_by_the_needed();
void forgotten();
void timed();
void fuzzed();
extern const char* const kFolded;
extern const char* const kForgotten;
extern const int kTable[2];
}
"""
LIBRARY = """#include "core/parts.h"
namespace lockstep::core {
const char* const kFolded = "text";
const char* const kForgotten = "nobody reads this";
extern const int kTable[2] = {1, 2};
void print(const char* text) { static const char* volatile kept; kept = text; }
void needed() { needed_by_the_needed(); print(kFolded); }
void needed_by_the_needed() { print(kTable[1] == 2 ? "two" : ""); }
void forgotten() { print("a"); }
void timed() { print("b"); }
void fuzzed() { print("c"); }
}
"""
PROGRAM = '#include "core/parts.h"\nint main() { lockstep::core::needed(); }\n'
BENCH = '#include "core/parts.h"\nnamespace lockstep { void time() { core::timed(); } }\n'
FUZZ = '#include "core/parts.h"\nnamespace lockstep::fuzz { void target() { core::fuzzed(); } }\n'
# Source -> object file.
OBJECTS = {"src/core/parts.cpp": "CMakeFiles/lockstep_core.dir/parts.o",
           "src/cli/main.cpp": "src/cli/CMakeFiles/lockstep.dir/main.o",
           "fuzz/targets.cpp": "CMakeFiles/lockstep_fuzz_targets.dir/targets.o"}


class Unused(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.files = {"src/core/parts.h": HEADER, "src/core/parts.cpp": LIBRARY, "src/cli/main.cpp": PROGRAM,
                      "bench/time.cpp": BENCH, "fuzz/targets.cpp": FUZZ}

    def find(self):
        """Exit code and lines of the tool on the files."""
        for path, text in self.files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        (self.root / "tools").mkdir(exist_ok=True)
        shutil.copy2(ROOT / "tools/find_unused.py", self.root / "tools")
        build, database = self.root / "build", []
        for source, target in OBJECTS.items():
            (build / target).parent.mkdir(parents=True, exist_ok=True)
            command = f"c++ -std=c++20 -O2 -fPIC -I{self.root}/src -o {target} -c {self.root}/{source}"
            subprocess.run(command.split(), cwd=build, check=True)
            database.append({"directory": str(build), "file": source, "command": command})
        (build / "compile_commands.json").write_text(json.dumps(database))
        done = subprocess.run([sys.executable, str(self.root / "tools/find_unused.py")], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_what_no_program_reaches_is_found_and_nothing_else(self):
        code, output = self.find()
        self.assertEqual(code, 1, output)
        self.assertEqual({line.split("(")[0] for line in output.splitlines() if "::" in line},
                         {"lockstep::core::forgotten", "lockstep::core::fuzzed", "lockstep::core::kForgotten"})

    def test_without_dead_code_it_ends_with_0(self):
        for name in ("forgotten", "fuzzed"):
            for path in ("src/core/parts.h", "src/core/parts.cpp", "fuzz/targets.cpp"):
                self.files[path] = "\n".join(line for line in self.files[path].splitlines()
                                             if f" {name}(" not in line and f"::{name}(" not in line) + "\n"
        for path in ("src/core/parts.h", "src/core/parts.cpp"):
            self.files[path] = "\n".join(line for line in self.files[path].splitlines()
                                         if "kForgotten" not in line) + "\n"
        self.assertEqual(self.find(), (0, "unused names: none\n"))


if __name__ == "__main__":
    sys.exit(run_test_case(Unused, "python3 tests/tools/unused_test.py"))
