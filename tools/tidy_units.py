#!/usr/bin/env python3
"""For tools/tidy.sh: puts sources of one folder together into units and writes a compile database for them.

    tools/tidy_units.py BUILD <files     one source a line, relative to the root; those that BUILD's database does not
                                         know are left out

Writes BUILD/units.d/{*.cpp,compile_commands.json} and prints the units."""
import itertools
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PER_UNIT = 12
ALONE = re.compile(r"data/pictures/resize_kernels\.cpp$")  # Highway compiles the file again for each instruction set


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    known = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}
    paths = [str(ROOT / line.strip()) for line in sys.stdin if not ALONE.search(line.strip())]
    folder_of = lambda path: re.match(r"((?:src|tests/unit)/[^/]*|[^/]*(?:/[^/]*)?)/",
                                      str(pathlib.Path(path).relative_to(ROOT)))[1]
    units = build / "units.d"
    units.mkdir(exist_ok=True)
    entries = []
    for folder, group in itertools.groupby(sorted(path for path in paths if path in known), key=folder_of):
        files = list(group)
        for number, begin in enumerate(range(0, len(files), PER_UNIT)):
            part = files[begin:begin + PER_UNIT]
            unit = units / f"{folder.replace('/', '_')}_{number}.cpp"
            unit.write_text("".join(f'#include "{path}"\n' for path in part))
            command = known[part[0]]["command"].replace(part[0], str(unit))
            entries.append({"directory": str(build), "command": command, "file": str(unit)})
            print(unit)
    (units / "compile_commands.json").write_text(json.dumps(entries, indent=1))


main()
