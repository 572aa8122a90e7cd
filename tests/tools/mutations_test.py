#!/usr/bin/env python3
"""Holds the mutations of mutate_device_path.py and their results to the sources as they are.

usage: mutations_test.py [XML_FILE]
"""
import json
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

    def test_each_was_noticed_as_it_is_now(self):
        table = json.loads((ROOT / "bench/results/device_mutations.json").read_text())
        found = {row["name"]: (row.get("removed"), row["result"]) for row in table["mutations"]}
        wanted = {name: (old.strip(), "noticed") for name, _, old, *_ in mutate_device_path.MUTATIONS}
        differing = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        self.assertEqual(differing, [], "run these with mutate_device_path.py --scratch FOLDER --only NAME...")


if __name__ == "__main__":
    sys.exit(run_test_case(Mutations, "python3 tests/tools/mutations_test.py"))
