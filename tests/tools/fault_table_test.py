#!/usr/bin/env python3
"""Which records of a failed run the table of faults takes for right.

usage: fault_table_test.py [XML_FILE]
"""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tools")]
import fault_table  # noqa: E402  found by the line above
from case_xml import run_test_case  # noqa: E402

SURVIVOR = "comm: this rank gives up: rank 1 (pid 11 on n7) does not answer any more"
ITSELF = "comm: this rank gives up: rank 0 (pid 10 on n7) stood still for 24.2 s, and by now: rank 1 (pid 11"


class FaultTable(unittest.TestCase):
    def test_a_record_names_the_lost_rank_or_none(self):
        blames_only = fault_table.blames_only
        self.assertTrue(blames_only(1, fault_table.ONE, 1, SURVIVOR))
        self.assertFalse(blames_only(0, fault_table.ZERO, None, SURVIVOR))
        self.assertTrue(blames_only(0, fault_table.ZERO, 0, ITSELF))
        self.assertFalse(blames_only(0, fault_table.ZERO, 1, ITSELF))
        self.assertTrue(blames_only(None, fault_table.STORE, None, "the job's store at n7:1 is lost"))
        self.assertTrue(blames_only(None, [], None, ""))

    def test_files_stall_for_longer_than_collectives_wait(self):
        for fault in fault_table.FAULTS:
            if fault[2] is not fault_table.stall_files:
                continue
            options = fault_table.options_of(fault)
            limit_s = int(options[options.index("--dist-timeout") + 1])
            self.assertGreater(fault_table.STALL_S, 2 * limit_s, fault[0])


if __name__ == "__main__":
    sys.exit(run_test_case(FaultTable, "python3 tests/tools/fault_table_test.py"))
