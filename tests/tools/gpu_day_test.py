#!/usr/bin/env python3
"""Shows that tools/gpu_day.sh goes on after a part that fails, prints what it measured, and writes over committed
results only where it is asked to.

usage: gpu_day_test.py [XML_FILE]
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

TEST_PROGRAM = """#!/bin/sh
cat > "${1#--gtest_output=xml:}" <<'EOF'
<testsuites><testsuite><testcase name="One" time="0.5"/><testcase name="Two" time="1">
<failure message="3 is not 4"/></testcase></testsuite></testsuites>
EOF
exit 1
"""
# `bench op` fails where the file is_broken lies beside it; `bench step` tells of its peak.
PROGRAM = """#!/bin/sh
case "$1 $2" in
  "bench op")
    if [ -e "$(dirname "$0")/is_broken" ]; then echo "lockstep: error: no kernel for this GPU" >&2; exit 6; fi
    echo '{"rows": [{"part": "gemm", "precision": "bf16", "tflops_per_s": 700.5, "wrong": 0}]}' ;;
  "bench step")
    echo "$@" > "$(dirname "$0")/step_flags"
    ranks='{"device": "cuda:0"}'
    if [ -e "$(dirname "$0")/is_elsewhere" ]; then ranks='{"device": "cuda:0"}, {"device": "cpu"}'; fi
    echo '{"machine": {"ranks": ['"$ranks"']}, "rows": [{"part": "step", "step_ms": 50, "samples_per_s": 1000,
      "tflops_per_s_per_device": 300, "mfu_percent": 40, "peak_memory_bytes": 20000000000,
      "planned_memory_bytes": 22000000000, "wrong": 0}]}' ;;
esac
"""
COMMITTED = '{"exit_code": 0, "seconds": 1}\n'


class GpuDay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("tools", "build", "bench/results"):
            (self.folder / name).mkdir(parents=True)
        for name in ("gpu_day.sh", "run_shards.sh", "gpu_day_part.py", "gpu_day_table.py"):
            shutil.copy(ROOT / "tools" / name, self.folder / "tools")
        for name, text in (("test_gpu", TEST_PROGRAM), ("lockstep", PROGRAM)):
            (self.folder / "build" / name).write_text(text)
            (self.folder / "build" / name).chmod(0o755)
        for name in ("tests", "op", "vit_b_32"):
            self.committed(name).write_text(COMMITTED)

    def committed(self, name):
        return self.folder / "bench/results" / f"gpu_{name}.json"

    def run_day(self, *flags):
        done = subprocess.run(["bash", str(self.folder / "tools/gpu_day.sh"), "--only", "tests,op,vit_b_32", *flags],
                              capture_output=True, text=True, check=False, cwd="/")
        self.assertNotIn("Traceback", done.stdout + done.stderr)
        table = done.stdout[done.stdout.index("part        ended"):].splitlines()
        for line in table[:table.index(next(line for line in table if line.startswith("== ")))]:
            self.assertLessEqual(len(line), 80, line)
        return done, "\n".join(table)

    def test_a_part_that_fails_ends_no_other_and_is_told(self):
        (self.folder / "build/is_broken").touch()
        done, table = self.run_day()
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(table, r"op +failed +\d+  lockstep: error: no kernel for this GPU")
        self.assertRegex(table, r"tests +failed +\d+  1 passed; 1 failed; failed: Two")
        self.assertRegex(table, r"vit_b_32 +ok +\d+  50 ms; 1000 samples/s; 300 TFLOP/s; 40 % of")
        self.assertIn("planned 22.0 GB (+10 %)", " ".join(table.split()))
        self.assertNotIn("--peak-from", (self.folder / "build/step_flags").read_text())

    def test_the_measured_peak_is_handed_on(self):
        done, table = self.run_day()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(table, r"op +ok +\d+  gemm bf16 700.5 TFLOP/s")
        self.assertIn("--peak-from", (self.folder / "build/step_flags").read_text())
        self.assertEqual(json.loads((self.folder / "build/gpu_day/gpu_op.json").read_text())["ended"], "ok")

    def test_a_part_that_computed_on_the_cpu_is_told_and_not_published(self):
        (self.folder / "build/is_elsewhere").touch()
        done, table = self.run_day("--publish")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(table, r"vit_b_32 +elsewhere ")
        self.assertIn("not compute on the device that was asked for, cuda", " ".join(table.split()))
        self.assertEqual(self.committed("vit_b_32").read_text(), COMMITTED)

    def test_wrong_flags_are_refused_before_anything_runs(self):
        for flags in (("--minutes", "x"), ("--device", "cuda:1"), ("--build", "/nowhere")):
            done = subprocess.run(["bash", str(self.folder / "tools/gpu_day.sh"), *flags], capture_output=True,
                                  text=True, check=False, cwd="/")
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(flags[1], done.stderr)
            self.assertEqual(done.stdout, "")

    def test_committed_results_stay_unless_they_are_asked_for_and_the_part_ended_well(self):
        self.run_day()
        for name in ("tests", "op", "vit_b_32"):
            self.assertEqual(self.committed(name).read_text(), COMMITTED, name)
        _, told = self.run_day("--publish")
        self.assertEqual(self.committed("tests").read_text(), COMMITTED)
        self.assertIn("bench/results/gpu_tests.json stays as it is", told)
        self.assertIn("rows", json.loads(self.committed("vit_b_32").read_text())["result"])


if __name__ == "__main__":
    sys.exit(run_test_case(GpuDay, "python3 tests/tools/gpu_day_test.py"))
