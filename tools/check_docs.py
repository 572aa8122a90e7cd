#!/usr/bin/env python3
"""Checks the Markdown pages of the repository: that they can be read anywhere and that what they name exists.

    tools/check_docs.py              all pages
    tools/check_docs.py FILE...      only these

- A line has at most 120 characters and is ASCII. Longer may be: a row of a table, up to 240 characters, since
  Markdown cannot break it; and a line that is one long word (an address).
- Links to files and headings of the repository resolve. Paths in `code` exist; '*', '{a,b}' and <name> stand for parts.
- Every `lockstep COMMAND` is one of the program's commands, and every --flag in code is one of its flags. Where a line
  of code names its command, the flag must be one of that command's. Lines of code that start other programs may have
  those programs' flags, FOREIGN lists the others.
- Every test that stands in code as `Suite.Name` is a test.
- No page names a folder of somebody's machine.
- Python sources have lines of at most 120 characters, too.
- Each module folder under src/ has a README.md of three lines, and files that it names in code lie in that folder.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINE, MAX_ROW = 120, 240
GENERATED = "Written by `lockstep config reference"
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/|/tmp/w/")
PATH = re.compile(r"^(?:src|docs|tests|bench|tools|ref|recipes|examples|cmake)/[\w./*{},<>+-]+$")
TEST = re.compile(r"^[A-Z]\w+\.[A-Z]\w+$")
DECLARED_TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9_-]*)")
COMMAND = re.compile(r"(?<![\w./-])lockstep((?: +[a-z][a-z0-9-]*){1,2})")
BEHIND_LAUNCH = re.compile(r" --((?: [a-z][a-z0-9-]*){1,2})")
DECLARED = re.compile(r'\badd[a-z_]*\(\s*"([a-z0-9-]+)"')
ALIASES = re.compile(r"\.aliases = \{([^}]*)\}")
NAMED_COMMAND = re.compile(r'\.name = "([a-z][a-z -]*)",\s*\.summary')
SUBCOMMAND = re.compile(r'\bCommand\{"([a-z-]+)", run_')
# Folders that need a README of their own, as far as they hold sources.
MODULE_FOLDERS = ["src/*", "src/data/*", "src/tasks/*"]
# Programs whose flags are not ours, as the first word of a line of code.
PROGRAMS = ("torchrun srun sbatch mpirun nsys python3 pip cmake ctest ninja git tools/ tests/tools/ ref/ examples/ "
            "bench/ ./test build/test_").split()
# Flags of other programs that the text speaks about outside such a line, and why.
FOREIGN = {
    "exclusive", "contiguous", "wait-all-nodes",  # sbatch, in docs/sweep.md
    "scale", "seed",  # scripts of ref/
    "nodes",  # tools/onebox_slurm.sh
    "yes",  # ./run and ./test
}


def all_files(pattern):
    """Files that git knows or would add; outside a checkout all below the folder."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", pattern], cwd=ROOT, capture_output=True,
                            text=True)
    if listed.returncode != 0:
        return sorted(path for path in ROOT.rglob(pattern) if not path.relative_to(ROOT).parts[0].startswith("build"))
    return sorted(ROOT / name for name in listed.stdout.split("\n") if name and (ROOT / name).exists())


def slug(heading):
    """The anchor that renderers give a heading."""
    text = re.sub(r"[`*]", "", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Program:
    """Commands and flags, from the sources and the generated reference."""

    def __init__(self):
        sources = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.cpp")))
        self.flags = set(DECLARED.findall(sources)) | {"help", "version"}
        for names in ALIASES.findall(sources):
            self.flags |= set(re.findall(r'"([a-z0-9-]+)"', names))
        tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cpp"))
        self.tests = {".".join(names) for names in DECLARED_TEST.findall(tests)}
        self.commands = set(NAMED_COMMAND.findall(sources))
        self.commands |= {"sweep " + name for name in SUBCOMMAND.findall(sources)}
        self.flags_of = {}
        for page in [ROOT / "docs/options.md", *sorted((ROOT / "docs/options").glob("*.md"))]:
            if page.exists():
                self.read_reference(page.read_text())
        self.commands |= set(self.flags_of)
        self.commands |= {name.split()[0] for name in self.commands}

    def read_reference(self, text):
        command = None
        for line in text.splitlines():
            if found := re.match(r"#+ lockstep ([a-z][a-z -]*)$", line):
                command = found[1]
            if command and line.startswith(("- ", "  ")):
                names = {name.replace("_", "-") for name in FLAG.findall(line)}
                self.flags_of.setdefault(command, {"help"}).update(names)
                self.flags |= names

    def command_in(self, words):
        """The longest command that the words begin with, or None."""
        for count in (2, 1):
            name = " ".join(words[:count])
            if len(words) >= count and name in self.commands:
                return name
        return None

    def has_flag(self, flag, command=None):
        known = self.flags_of.get(command, self.flags)
        flag = flag.replace("_", "-")
        return flag in known or (flag.startswith("no-") and flag[3:] in known)


class Page:
    def __init__(self, path, program):
        self.path, self.program, self.problems = path, program, []
        self.text = path.read_text()
        self.is_generated = GENERATED in self.text[:400]
        self.lines = self.text.splitlines()

    def report(self, number, what):
        self.problems.append(f"{self.path.relative_to(ROOT)}:{number}: {what}")

    def check(self):
        for number, line in enumerate(self.lines, 1):
            self.check_form(number, line)
            self.check_links(number, line)
        for number, code, is_block in self.code():
            self.check_paths(number, code, is_block)
            self.check_test(number, code, is_block)
            if not self.is_generated:
                self.check_command_line(number, code, is_block)
        self.check_module()
        return self.problems

    def check_form(self, number, line):
        is_row, is_word = line.startswith("|"), " " not in line.strip()
        limit = MAX_ROW if is_row else MAX_LINE
        if len(line) > limit and not is_word:
            self.report(number, f"{len(line)} characters, at most {limit}")
        if not line.isascii():
            self.report(number, "not ASCII")
        if line != line.rstrip():
            self.report(number, "space at the end of the line")
        if MACHINE_PATH.search(line):
            self.report(number, "names a folder of somebody's machine")

    def check_links(self, number, line):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (self.path.parent / name).resolve() if name else self.path
            if not file.exists():
                self.report(number, f"link to {target}: no such file")
            elif anchor and file.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
                if anchor not in {slug(heading) for heading in headings}:
                    self.report(number, f"link to {target}: no such heading")

    def code(self):
        """(line number, text, whether it is a block) of each line of code; a block's line goes on behind '\\'."""
        fenced = continued = False
        start, text = 0, ""
        for number, line in enumerate(self.lines, 1):
            if line.startswith("```"):
                fenced = not fenced
            elif fenced or line.startswith("    "):
                start, text = (start, text + " " + line.strip()) if continued else (number, line.strip())
                continued = text.endswith("\\")
                if continued:
                    text = text[:-1].rstrip()
                else:
                    yield start, text, True
            else:
                for span in re.findall(r"`([^`]+)`", line):
                    yield number, span, False

    def check_paths(self, number, code, is_block):
        for word in code.split() if is_block else [code]:
            word = word.strip("'\",;:()")
            if not PATH.match(word) or re.search(r"\.(?:log|csv|svg|json)$", word) and is_block:
                continue
            pattern = re.sub(r"\{[^}]*\}|<[^>]*>", "*", word.rstrip("/").split(":")[0])
            if not any(ROOT.glob(pattern)):
                self.report(number, f"{word}: no such file")

    def check_test(self, number, code, is_block):
        if not is_block and TEST.match(code) and code not in self.program.tests:
            self.report(number, f"{code}: no such test")

    def check_command_line(self, number, code, is_block):
        code = code.split(" # ")[0] if is_block else code
        first = re.sub(r"^(\$ |[A-Z_]+=\S+ )+", "", code).split(" ")[0]
        if first.startswith(tuple(PROGRAMS)) and "lockstep " not in code:
            return
        named = [(found.start(), found.end(), found[1].split()) for found in COMMAND.finditer(code)]
        named += [(found.start(), found.end(), found[1].split()) for found in BEHIND_LAUNCH.finditer(code)]
        command_at = []
        for at, end, words in named:
            command = self.program.command_in(words)
            is_call = code[at:].startswith("lockstep ") and (at == 0 or not is_block)
            if is_call and self.is_slip(command, words, code, end):
                self.report(number, f"`lockstep {' '.join(words)}` is no command")
            command_at.append((at, command))
        if not named and not is_block and (command := self.program.command_in(code.split())):
            command_at.append((0, command))
        for found in FLAG.finditer(code):
            before = [command for at, command in sorted(command_at) if at < found.start() or at == 0]
            command = before[-1] if before else None
            if first.startswith(tuple(PROGRAMS)) and not before:
                continue
            if found[1] in FOREIGN or self.program.has_flag(found[1], command):
                continue
            self.report(number, f"--{found[1]} is no flag of `{'lockstep ' + command if command else 'lockstep'}`")

    def is_slip(self, command, words, code, end):
        """Whether the words name no command: not even the first does, or the second is neither its word nor a file."""
        if command is None or len(words) == 1 or " " in command:
            return command is None
        is_file = code[end:end + 1] in set("./_*{=")
        return not is_file and any(name.startswith(command + " ") for name in self.program.commands)

    def check_module(self):
        folder = self.path.parent
        if ROOT / "src" not in folder.parents or self.path.name != "README.md":
            return
        if len([line for line in self.lines if line.strip()]) > 8:
            self.report(1, "a module's README is a title and three sentences")
        has_sources = any(folder.rglob("*.h")) or any(folder.rglob("*.cpp"))
        for name in re.findall(r"`([\w/]+\.(?:h|cpp))`", self.text):
            if has_sources and not (folder / name).exists():
                self.report(1, f"{name}: no such file in {folder.relative_to(ROOT)}")


def long_lines(paths):
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > MAX_LINE:
                yield f"{path.relative_to(ROOT)}:{number}: {len(line)} characters, at most {MAX_LINE}"


def main():
    program = Program()
    pages = [pathlib.Path(name).resolve() for name in sys.argv[1:]] or all_files("*.md")
    problems = [problem for path in pages for problem in Page(path, program).check()]
    if len(sys.argv) == 1:
        folders = [folder for pattern in MODULE_FOLDERS for folder in ROOT.glob(pattern) if any(folder.rglob("*.cpp"))]
        missing = sorted(folder for folder in folders if not (folder / "README.md").exists())
        problems += [f"{folder.relative_to(ROOT)}: no README.md" for folder in missing]
        problems += long_lines(all_files("*.py"))
    print("\n".join(problems) or f"{len(pages)} pages: all right")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
