#!/usr/bin/env python3
"""Ten rounds of the fault storm: the short form of what tools/fault_storm.py does for an hour.

usage: storm_test.py BUILD_FOLDER [XML_FILE]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from case_xml import run_test_case  # noqa: E402  found by the line above

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
NUM_ROUNDS = 10


class Storm(unittest.TestCase):
    def test_ten_faults_lose_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "storm.json"
            done = subprocess.run([sys.executable, str(ROOT / "tools/fault_storm.py"), "--rounds", str(NUM_ROUNDS),
                                   "--faults", "all", "--steps", "24", "--lockstep", str(BUILD / "lockstep"),
                                   "--output", str(output)], capture_output=True, text=True, check=False)
            said = done.stdout + done.stderr
            self.assertEqual(done.returncode, 0, said)
            storm = json.loads(output.read_text())
        self.assertEqual(len(storm["rounds"]), NUM_ROUNDS, said)
        self.assertTrue({one["fault"] for one in storm["rounds"]} & {"rank", "node", "launcher"}, said)
        self.assertTrue(all(run["result"] for run in storm["runs"]), said)


if __name__ == "__main__":
    sys.exit(run_test_case(Storm, "python3 tests/tools/storm_test.py BUILD"))
