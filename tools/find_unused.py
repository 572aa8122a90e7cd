#!/usr/bin/env python3
"""Lists what no program uses: functions and variables of our static libraries that main() cannot reach, and names that
a header declares and no other line of src/ or bench/ mentions. Tests and the fuzzer do not count as users; what only
they use is dead. The programs of bench/ do, by the `folder::name` in their sources, since most builds have none of
them.

    tools/find_unused.py [BUILD]     BUILD: a folder in which both programs are built (default: build)

Ends with 1 where something is found. Functions are found by the relocations of the objects, which name every global
symbol in position-independent code; what a function of an anonymous namespace refers to counts as used, since the
compiler itself reports those that nothing calls. So after a removal run it again: more may show. A constant that the
compiler has put into the code leaves no relocation: it counts as used where the sources mention it beside its
declaration and its definition."""
import bisect
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Name -> why it stays although no program refers to it.
EXCEPTIONS = {
    "Comm::count": "tests count collectives",
    "nn::make_rotary_table": "tests compare the cached tables with it",
    "num_passes": "tests wait for passes of a copy, not for seconds",
    "comm::describe": "messages of the transport of tests",
    "comm::reduce_name": "messages of the transport of tests",
    "Comm::recorder": "tests count collectives",
    "StagingArea::num_bytes": "tests bound what checkpoints pin",
    "Recorder::clear": "tests count collectives",
    "Store::in_process": "ranks as threads over Gloo (tests/support/ranks)",
    "Store::port": "tests serve on any free port",
    "SafetensorsFile::at": "tests read single tensors of what commands leave",
    "SafetensorsFile::find": "part of at()",
    "PickleWriter::begin_list": "the reader is tested with every kind of value",
    "PickleWriter::real": "the reader is tested with every kind of value",
    "end_list": "the reader is tested with every kind of value",
    "ClipTokenizer::ids": "compared with the reference, uncut",
    "ClipTokenizer::decode": "compared with the reference",
    "RobertaTokenizer::ids": "compared with the reference, uncut",
    "RobertaTokenizer::decode": "compared with the reference",
    "record::to_json": "tests write records as the engine does",
    "kTest": "the third split of an index file",
    "SegmentState::at": "tests of every optimiser read single states",
    "autocast_type": "tests read the table of precisions",
}


def run(*command, text=None):
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout


class Object:
    """Symbols and relocations of one object file."""

    def __init__(self, path):
        self.symbols = {}  # section -> [(begin, end, name, is_global)]
        self.global_names = set()
        self.constants = set()  # of global_names those that are data
        self.sections = {}
        for line in run("readelf", "-SW", str(path)).splitlines():
            found = re.match(r"\s*\[\s*(\d+)\] (\S+)", line)
            if found:
                self.sections[found[2]] = self.sections.get(found[2], []) + [found[1]]
        for line in run("readelf", "-sW", str(path)).splitlines():
            parts = line.split()
            if len(parts) != 8 or not parts[0][:-1].isdigit() or parts[3] not in ("FUNC", "OBJECT",
                                                                                  "TLS") or not parts[6].isdigit():
                continue
            begin, name, is_global = int(parts[1], 16), parts[7], parts[4] != "LOCAL"
            self.symbols.setdefault(parts[6], []).append((begin, begin + int(parts[2], 0), name, is_global))
            if parts[4] == "GLOBAL":
                self.global_names.add(name)
                if parts[3] == "OBJECT":
                    self.constants.add(name)
        for symbols in self.symbols.values():
            symbols.sort()
        self.edges = set(self.read_edges(path))

    def owner(self, section, offset):
        """The global symbol whose code or data lies there; None: something local."""
        symbols = self.symbols.get(section, [])
        for begin, end, name, is_global in reversed(symbols[:bisect.bisect(symbols, (offset, float("inf")))]):
            if offset >= end:
                break
            if begin <= offset:
                whole = name.split(".")[0]  # of the cold part of a function
                if is_global or whole in self.global_names:
                    return whole
        return None

    def read_edges(self, path):
        sections = []
        for line in run("readelf", "-rW", str(path)).splitlines():
            found = re.match(r"Relocation section '\.rela?(\S+)' at", line)
            if found:
                name = found[1]
                skips = name.startswith((".eh_frame", ".gcc_except_table", ".debug"))
                sections = [] if skips else self.sections.get(name, [])
                continue
            parts = line.split()
            if not sections or len(parts) < 5 or not re.fullmatch("[0-9a-f]{8,}", parts[0]) or parts[4].startswith("."):
                continue
            # Sections of one name (COMDAT) each have their own relocations; offsets alone do not tell them apart, the
            # symbol's name does.
            owners = {self.owner(section, int(parts[0], 16)) for section in sections}
            for owner in owners:
                yield owner, parts[4].split("@")[0]


def object_files(build):
    """The objects of our libraries, and those of the two programs."""
    # of what was built before, objects may be left
    database = json.loads((build / "compile_commands.json").read_text())
    objects = {build / found[1] for entry in database if (found := re.search(r" -o (\S+\.o) ", entry["command"]))}
    objects = sorted(path for path in objects if path.exists() and "CMakeFiles/lockstep" in str(path))
    programs = [path for path in objects if "/src/cli/" in str(path)]
    libraries = [path for path in objects if not re.search("/src/cli/|lockstep_pch|lockstep_test|lockstep_fuzz",
                                                           str(path))]
    if not libraries or not programs:
        sys.exit(f"find_unused.py: no objects under {build}; build both programs there first")
    return libraries, programs


def unreachable(build):
    libraries, programs = object_files(build)
    edges = collections.defaultdict(set)
    defined, constants, reached = set(), set(), {"main"}
    for path in libraries + programs:
        parsed = Object(path)
        is_program = path in programs
        if not is_program:
            defined |= parsed.global_names
            constants |= parsed.constants
        for owner, target in parsed.edges:
            if owner is None or is_program:
                reached.add(target)
            else:
                edges[owner].add(target)
    names = sorted(defined | reached | set(edges) | set().union(*edges.values()))
    plain = dict(zip(names, run("c++filt", text="\n".join(names)).splitlines()))  # constructors have several symbols
    by_plain = collections.defaultdict(set)
    for name in edges:
        by_plain[plain[name]] |= edges[name]
    counts, of_bench = word_counts(ROOT / "src"), " ".join(sources_of(ROOT / "bench").values())
    reached |= {name for name in defined if (found := re.search(r"(\w+::\w+)\(", plain[name]))
                and found[1] + "(" in of_bench}
    reached |= {name for name in constants if counts[bare_name(plain[name])] > 2}
    seen, todo = set(), [plain[name] for name in reached]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [plain.get(target, target) for target in by_plain[name]]
    dead = {plain[name] for name in defined} - seen
    # declared with the other one of the pair
    is_move = re.compile(r"::(\w+)::(\1|operator=)\(lockstep::[\w:]*::\1&&\)$")
    return sorted(name for name in dead if name.startswith("lockstep::") and not is_move.search(name))


def without_comments(text):
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def bare_name(plain):
    """"set_up" of "lockstep::train::set_up(long)"."""
    return re.sub(r"[(\[<].*", "", plain).rpartition("::")[2]


def sources_of(folder):
    """Path -> text without comments."""
    return {path: without_comments(path.read_text()) for path in folder.rglob("*") if path.suffix in (".h", ".cpp")}


def word_counts(*folders):
    texts = [text for folder in folders for text in sources_of(folder).values()]
    return collections.Counter(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text))


def mentioned_once():
    """Names that a header declares and nothing mentions."""
    texts, counts = sources_of(ROOT / "src") | sources_of(ROOT / "bench"), word_counts(ROOT / "src", ROOT / "bench")
    declared = re.compile(r"\b(?:(?:struct|class|enum class|using|concept) (\w+)|(?<![.>!(] )(?<!return )(?<=[\w>&*] "
                          r")(\w+)\s*\(|(k[A-Z]\w*)|[\w>*&] (\w+)(?: = [^;(]*|\{[^;(]*)?;)")
    for path, text in sorted(texts.items()):
        if path.suffix == ".h":
            for found in declared.finditer(text):
                name = next(group for group in found.groups() if group)
                if counts[name] == 1:
                    yield f"{path.relative_to(ROOT)}: {name}"


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    found = unreachable(build) + sorted(set(mentioned_once()))
    found = [line for line in found if not any(re.search(rf"\b{re.escape(name)}\b", line) for name in EXCEPTIONS)]
    print("\n".join(found) if found else "unused names: none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
