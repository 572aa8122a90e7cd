#!/usr/bin/env python3
"""Shows what tools/setup.sh asks before it installs, with stand-ins for the package managers, with and without a
terminal.

usage: setup_test.py [XML_FILE]
"""
import os
import pathlib
import pty
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from case_xml import run_test_case  # noqa: E402  found by the line above

QUESTION = "Go on?"
PACKAGES = 'install_packages packages.txt "to build with"; echo went on'
OPTIONAL = 'install_packages test-packages.txt "for tests" optional; echo went on'
WHEELS = 'pip_into "$XDG_CACHE_HOME/wheels" "some wheels" tools/torch-requirements.txt; echo went on'


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in {"id": "echo 0", "dpkg-query": "exit 1", "apt-get": 'echo "apt-get $*" >>"$CALLS"',
                           "python3": 'echo "python3 $*" >>"$CALLS"; while [ "$1" != --target ]; do shift; done; '
                                      'mkdir "$2"'}.items():
            path = self.folder / name
            path.write_text("#!/bin/sh\n" + text + "\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.calls = self.folder / "calls"
        self.environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "CALLS": str(self.calls),
                            "XDG_CACHE_HOME": str(self.folder / "cache")}
        self.environment.pop("LOCKSTEP_YES", None)

    def run_script(self, script, answer=None, yes=False):
        """Exit code, output and calls of package managers. `answer`: what somebody at a terminal types; None: nobody
        there."""
        environment = {**self.environment, **({"LOCKSTEP_YES": "1"} if yes else {})}
        command = ["bash", "-c", f'source "{ROOT}/tools/setup.sh"; {script}']
        if answer is None:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
                                  check=False)
            code, output = done.returncode, done.stdout + done.stderr
        else:
            ours, theirs = pty.openpty()
            process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
            os.close(theirs)
            os.write(ours, answer.encode())
            parts = []
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # Linux's way to say that the other side is closed
                    break
                if not part:
                    break
                parts.append(part)
            os.close(ours)
            code, output = process.wait(), b"".join(parts).decode()
        return code, output, self.calls.read_text() if self.calls.exists() else ""

    def test_named_tests_are_built_alone(self):
        self.assertEqual(self.run_script("test_targets")[1], "")
        code, output, _ = self.run_script("echo $(test_targets core includes ranks_gpt)")
        self.assertEqual((code, output), (0, "test_core lockstep test_ranks_gpt\n"))
        self.assertEqual(self.run_script("echo $(test_targets commands)")[1],
                         "lockstep lockstep-engine test_commands\n")

    def test_without_a_terminal_installs_and_never_asks(self):
        code, output, calls = self.run_script(PACKAGES)
        self.assertEqual(code, 0, output)
        self.assertNotIn(QUESTION, output)
        self.assertIn("as root: to build with", output)
        self.assertIn("libfmt-dev", output)
        self.assertIn("apt-get install -y", calls)

    def test_at_a_terminal_asks_before_it_installs(self):
        code, output, calls = self.run_script(PACKAGES, answer="y\n")
        self.assertEqual(code, 0, output)
        self.assertIn(QUESTION, output)
        self.assertIn("apt-get install -y", calls)

    def test_no_installs_nothing_and_says_the_command(self):
        code, output, calls = self.run_script(PACKAGES, answer="n\n")
        self.assertEqual(code, 6, output)
        self.assertEqual(calls, "")
        self.assertIn("apt-get install build-essential", output)
        self.assertNotIn("went on", output)

    def test_yes_answers(self):
        code, output, calls = self.run_script(PACKAGES, answer="", yes=True)
        self.assertEqual(code, 0, output)
        self.assertNotIn(QUESTION, output)
        self.assertIn("apt-get install -y", calls)

    def test_optional_packages_can_be_declined(self):
        code, output, calls = self.run_script(OPTIONAL, answer="n\n")
        self.assertEqual(code, 0, output)
        self.assertEqual(calls, "")
        self.assertIn("tests that need them are skipped", output)
        self.assertIn("went on", output)

    def test_wheels_are_asked_for_too(self):
        code, output, calls = self.run_script(WHEELS, answer="n\n")
        self.assertEqual(code, 6, output)
        self.assertEqual(calls, "")
        self.assertFalse((self.folder / "cache/wheels").exists())
        code, output, calls = self.run_script(WHEELS, answer="y\n")
        self.assertEqual(code, 0, output)
        self.assertIn("torch-requirements.txt", calls)
        self.assertTrue((self.folder / "cache/wheels").is_dir())

    def test_a_file_system_without_locks_ends_nothing(self):
        flock = self.folder / "flock"
        flock.write_text("#!/bin/sh\nexit 1\n")
        flock.chmod(0o755)
        code, output, calls = self.run_script(WHEELS)
        self.assertEqual(code, 0, output)
        self.assertIn("no file locks", output)
        self.assertIn("torch-requirements.txt", calls)

    def test_every_required_wheel_has_a_hash(self):
        for path in [*ROOT.glob("tools/*-requirements.txt"), *ROOT.glob("ref/*requirements.txt")]:
            lines = path.read_text().splitlines()
            for line, following in zip(lines, lines[1:] + [""]):
                if "==" in line:
                    self.assertTrue(following.strip().startswith("--hash=sha256:"), f"{path.name}: {line}")


if __name__ == "__main__":
    sys.exit(run_test_case(Setup, "python3 tests/tools/setup_test.py"))
