#!/usr/bin/env python3
"""Shows what tools/setup.sh, ./run and ./test ask before they install, with stand-ins for the package managers, with
and without a terminal.

usage: setup_test.py [XML_FILE]
"""
import os
import pathlib
import pty
import shutil
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
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        self.add_program("id", "echo 0")
        self.add_program("dpkg-query", "exit 1")
        self.add_program("apt-get", 'echo "apt-get $*" >>"$CALLS"')
        self.add_program("python3", 'echo "python3 $*" >>"$CALLS"; [ "$1" = -m ] || exit 0; '
                                    'while [ "$1" != --target ]; do shift; done; mkdir "$2"')
        self.calls = self.folder / "calls"
        self.environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}", "CALLS": str(self.calls),
                            "XDG_CACHE_HOME": str(self.folder / "cache")}
        for name in ("LOCKSTEP_YES", "LOCKSTEP_TORCH_DIR", "LOCKSTEP_MOTO_DIR", "LOCKSTEP_BUILD"):
            self.environment.pop(name, None)

    def add_program(self, name, text):
        path = self.programs / name
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    def start(self, command, answer=None, yes=False):
        """Exit code, output and calls of package managers. `answer`: what somebody at a terminal types; None: nobody
        there."""
        environment = {**self.environment, **({"LOCKSTEP_YES": "1"} if yes else {})}
        if answer is None:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
                                  check=False)
            code, output = done.returncode, done.stdout + done.stderr
        else:
            ours, theirs = pty.openpty()
            process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
            os.close(theirs)
            os.write(ours, answer.encode() + 9 * b"\x04")  # Ctrl-D: who asks more gets no answer
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

    def run_script(self, script, answer=None, yes=False):
        return self.start(["bash", "-c", f'source "{ROOT}/tools/setup.sh"; {script}'], answer, yes)

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
        self.add_program("flock", "exit 1")
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

    def run_command(self, name, *words, answer=None):
        """./run or ./test of a bare machine: the scripts as they are, in a folder of their own; what they build, check
        and test with is a stand-in that notes its call."""
        copy = self.folder / "copy"
        for path in [ROOT / "run", ROOT / "test", ROOT / "tools/setup.sh", *ROOT.glob("tools/*.txt")]:
            (copy / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy / path.relative_to(ROOT))
        for program in ("cmake", "ctest"):
            self.add_program(program, f'echo "{program} $*" >>"$CALLS"')
        for path in (copy / "build/lockstep", copy / "tools/check_sources.sh"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(f'#!/bin/sh\necho "{path.name} $*" >>"$CALLS"\n')
            path.chmod(0o755)
        return self.start([str(copy / name), *words], answer)

    def assert_installs(self, calls, *lists):
        """Exactly one call of each package manager for each of these lists, in this order."""
        made = [line for line in calls.splitlines() if "apt-get install" in line or "pip install" in line]
        for line, name in zip(made, lists, strict=True):
            path = ROOT / "tools" / name
            packages = [word for word in path.read_text().split("\n") if word and not word.startswith("#")]
            wanted = name if "requirements" in name else " ".join(packages)
            self.assertTrue(line.endswith(wanted), f"{name}: {line}")

    def test_run_without_a_terminal_sets_up_a_bare_machine_and_never_asks(self):
        code, output, calls = self.run_command("run", "train", "clip")
        self.assertEqual(code, 0, output)
        self.assertNotIn(QUESTION, output)
        self.assert_installs(calls, "packages.txt", "torch-requirements.txt")
        self.assertEqual(calls.splitlines()[-1], "lockstep train clip")

    def test_run_at_a_terminal_asks_before_each_installation(self):
        code, output, calls = self.run_command("run", "train", "clip", answer="y\ny\n")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count(QUESTION), 2)
        self.assertLess(output.index("as root: the compiler and the libraries"), output.index(QUESTION))
        self.assert_installs(calls, "packages.txt", "torch-requirements.txt")
        self.assertEqual(calls.splitlines()[-1], "lockstep train clip")

    def test_run_at_a_terminal_takes_no_for_an_answer(self):
        code, output, calls = self.run_command("run", "train", "clip", answer="n\n")
        self.assertEqual((code, calls), (6, ""), output)
        code, output, calls = self.run_command("run", "train", "clip", answer="y\nn\n")
        self.assertEqual(code, 6, output)
        self.assert_installs(calls, "packages.txt")
        self.assertNotIn("lockstep train", calls)

    def test_yes_of_run_answers_and_is_no_word_of_the_command(self):
        code, output, calls = self.run_command("run", "--yes", "train", "clip", answer="")
        self.assertEqual(code, 0, output)
        self.assertNotIn(QUESTION, output)
        self.assert_installs(calls, "packages.txt", "torch-requirements.txt")
        self.assertEqual(calls.splitlines()[-1], "lockstep train clip")

    def test_test_without_a_terminal_sets_up_a_bare_machine_and_never_asks(self):
        code, output, calls = self.run_command("test", "core")
        self.assertEqual(code, 0, output)
        self.assertNotIn(QUESTION, output)
        self.assert_installs(calls, "test-packages.txt", "moto-requirements.txt", "packages.txt",
                             "torch-requirements.txt")
        self.assertIn("ctest --test-dir", calls)

    def test_yes_of_test_answers_and_names_no_test(self):
        code, output, calls = self.run_command("test", "--yes", "core", answer="")
        self.assertEqual(code, 0, output)
        self.assertNotIn(QUESTION, output)
        self.assert_installs(calls, "test-packages.txt", "moto-requirements.txt", "packages.txt",
                             "torch-requirements.txt")
        self.assertIn("-R ^(core)(_[0-9]+)?$", calls)
        self.assertNotIn("--yes", calls)

    def test_test_at_a_terminal_goes_on_without_browser_and_slurm_when_they_are_declined(self):
        code, output, calls = self.run_command("test", "core", answer="n\nn\ny\ny\n")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count(QUESTION), 4)
        self.assertIn("a browser, SLURM", output[:output.index(QUESTION)])
        self.assert_installs(calls, "packages.txt", "torch-requirements.txt")
        self.assertIn("ctest --test-dir", calls)

    def test_test_at_a_terminal_installs_nothing_when_all_is_declined(self):
        code, output, calls = self.run_command("test", "core", answer="n\nn\nn\n")
        self.assertEqual((code, calls), (6, ""), output)


if __name__ == "__main__":
    sys.exit(run_test_case(Setup, "python3 tests/tools/setup_test.py"))
