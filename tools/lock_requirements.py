#!/usr/bin/env python3
"""Writes the SHA-256 of every wheel that pip may take into the requirement files, so that pip refuses any other file.

    python3 tools/lock_requirements.py tools/torch-requirements.txt ref/*requirements.txt

A line "name==version" keeps its version, a line "name" gets the newest one. Wheels of Linux (x86_64, aarch64) for
CPython 3.10 to 3.14 and wheels that run anywhere are listed. Run it after changing a version; needs the package index,
and changes nothing when the index lacks a version.
"""
import json
import re
import sys
import urllib.request

from pip._vendor.packaging.version import Version

INDEX = "https://pypi.org"
PYTHONS = ("cp310", "cp311", "cp312", "cp313", "cp314")


def wheels_of(name):
    """SHA-256 of the wheels of all releases, by version."""
    request = urllib.request.Request(f"{INDEX}/simple/{re.sub('[-_.]+', '-', name).lower()}/",
                                     headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    found = {}
    with urllib.request.urlopen(request, timeout=60) as answer:
        for file in json.load(answer)["files"]:
            if file["filename"].endswith(".whl") and not file.get("yanked") and runs_here(file["filename"]):
                found.setdefault(Version(file["filename"].split("-")[1]), []).append(file["hashes"]["sha256"])
    return found


def runs_here(wheel):
    """Whether the tags of a wheel's name fit a platform and a Python of ours."""
    python, abi, platform = wheel.removesuffix(".whl").split("-")[-3:]
    if platform == "any":
        return "py3" in python or any(tag in python for tag in PYTHONS)
    if "linux" not in platform or "musllinux" in platform or not re.search("x86_64|aarch64", platform):
        return False
    if abi == "none":
        return True
    if any(tag in python for tag in PYTHONS):
        return abi == "abi3" or abi in PYTHONS  # not the builds without the global lock (cp313t)
    return abi == "abi3"  # built for an older Python, good for later ones


def locked(requirement):
    name, _, wanted = requirement.partition("==")
    wheels = wheels_of(name)
    version = Version(wanted) if wanted else max((v for v in wheels if not v.is_prerelease), default=None)
    if version not in wheels:
        sys.exit(f"{requirement}: the index has no wheel of it for Linux; nothing was written")
    return " \\\n".join([f"{name}=={wanted or version}"] +
                         [f"    --hash=sha256:{digest}" for digest in sorted(set(wheels[version]))])


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    texts = {}
    for path in sys.argv[1:]:
        lines = []
        for line in open(path, encoding="utf-8").read().splitlines():
            if line.startswith("#"):
                lines.append(line)
            elif line.strip() and not line.lstrip().startswith("--hash"):
                lines.append(locked(line.removesuffix("\\").strip()))
        texts[path] = "\n".join(lines) + "\n"
    for path, text in texts.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
