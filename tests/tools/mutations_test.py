#!/usr/bin/env python3
"""Holds the mutations of mutate_device_path.py to the sources as they are.

usage: mutations_test.py [XML_FILE]
"""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/tools")]
import mutate_device_path  # noqa: E402  found by the line above
from case_xml import run_test_case  # noqa: E402


class Mutations(unittest.TestCase):
    def test_the_text_of_each_stands_once_in_its_file(self):
        self.assertEqual(mutate_device_path.not_found_once(), [])


if __name__ == "__main__":
    sys.exit(run_test_case(Mutations, "python3 tests/tools/mutations_test.py"))
