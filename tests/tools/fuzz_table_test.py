#!/usr/bin/env python3
"""Shows that tools/fuzz_table.py adds searches up, leaves out who has enough, and tells what was found.

usage: fuzz_table_test.py [XML_FILE]
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

# Says what tools/fuzz.sh says: `quick` does all runs that it is asked for, `slow` 30 of them, `broken` ends with 77.
FUZZ = """#!/usr/bin/env bash
if [ $# -lt 2 ]; then echo "LOCKSTEP_FUZZ_TARGET must be one of: broken slow quick" >&2; exit 2; fi
echo "$1 $2 $3" >> "$(dirname "$0")/calls"
runs=${3#-runs=}
case $1 in slow) done=30 ;; *) done=$runs ;; esac
echo "#7 NEW cov: 11 ft: 2"
echo "#9 NEW cov: 12 ft: 3"
echo "stat::number_of_executed_units: $done"
echo "stat::cpu_seconds: 0.25 0.75" >&2
[ "$1" != broken ] || exit 77
"""


class FuzzTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tools = pathlib.Path(folder.name) / "tools"
        self.tools.mkdir()
        shutil.copy(ROOT / "tools/fuzz_table.py", self.tools)
        (self.tools / "fuzz.sh").write_text(FUZZ)
        (self.tools / "fuzz.sh").chmod(0o755)
        self.results = self.tools / "fuzz.json"

    def search(self, *arguments):
        """Exit code, and the calls of fuzz.sh in their order."""
        (self.tools / "calls").write_text("")
        done = subprocess.run([sys.executable, str(self.tools / "fuzz_table.py"), "--seconds", "5", "--total", "100",
                               "--jobs", "1", "--results", str(self.results), *arguments], capture_output=True,
                              text=True, check=False)
        return done.returncode, (self.tools / "calls").read_text().splitlines()

    def page(self):
        return self.results.with_suffix(".md").read_text()

    def test_searches_add_up_until_a_target_has_enough(self):
        self.assertEqual(self.search("quick", "slow")[0], 0)
        self.assertEqual(self.search("quick", "slow"), (0, ["slow 5 -runs=70"]))
        self.assertIn("| quick | 100 | 100 | 12 | none |", self.page())
        self.assertIn("| slow | 60 | 30 | 12 | none |", self.page())
        self.assertIn("160 executions. 1 of 2 targets have", self.page().replace("\n", " "))
        self.assertEqual(len(json.loads(self.results.read_text())["searches"]), 2)

    def test_the_target_that_has_enough_soonest_comes_first(self):
        self.search("slow")
        self.results.write_text(self.results.read_text().replace(
            '"targets": {', '"targets": {"quick": {"executions": 10, "rate": 90, "edges": 1},'))
        self.assertEqual(self.search("slow", "quick")[1], ["quick 5 -runs=90", "slow 5 -runs=70"])

    def test_a_search_that_was_not_timed_has_no_rate_and_none_of_zero(self):
        script = (self.tools / "fuzz.sh").read_text()
        (self.tools / "fuzz.sh").write_text(script.replace('echo "stat::cpu_seconds: 0.25 0.75" >&2', ""))
        self.search("slow")
        self.assertIn("| slow | 30 | - | 12 | none |", self.page())
        (self.tools / "fuzz.sh").write_text(script)
        self.search("slow")
        self.assertIn("| slow | 60 | 30 | 12 | none |", self.page())

    def test_what_was_found_is_told_until_a_later_search_stands(self):
        self.assertEqual(self.search("broken")[0], 1)
        self.assertIn("| broken | 100 | 100 | 12 | exit code 77 |", self.page())
        results = json.loads(self.results.read_text())
        results["finds"].append({"day": "2026-01-02", "target": "quick", "what": "a loop without end"})
        self.results.write_text(json.dumps(results))
        self.search("quick")
        self.assertIn("| quick | 100 | 100 | 12 | 1, mended |", self.page())
        self.assertIn("- quick, 2026-01-02: a loop without end", self.page())


if __name__ == "__main__":
    sys.exit(run_test_case(FuzzTable, "python3 tests/tools/fuzz_table_test.py"))
