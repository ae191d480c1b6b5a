#!/usr/bin/python3
"""Checks of the source tree that no compiler makes.

    check.py ranks|orphans|format|text|scripts [--root DIR] [--build DIR]

ranks    an include never goes up, and never sideways to another part of the same rank
orphans  every source is compiled, every test script is run, every header is included
format   clang-format has nothing to change
text     no trailing blanks, no tabs, no work left open, no path of one machine
scripts  bash and python accept every script, and scripts are executable

Prints one line "file:line: why" for each violation. Exit status: 0 none, 1 some, 2 wrong usage,
77 the check needs a tool that is missing.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys

# Rank of each part: a part includes itself and parts of a lower rank.
RANKS = {
    "include/uzram": 0,
    "src/base": 1,
    "src/codec": 2,
    "src/pool": 2,
    "src/backing": 2,
    "src/device": 3,
    "src/exec": 4,
    "src/attach": 5,
    "src/control": 5,
    "bench": 5,
    "src/cli": 6,
}
# A folder in here sees itself and the files beside it, so that each can be deleted alone.
FRONT_ENDS = "src/attach"
PRODUCT = ("include", "src", "bench")
EVERYWHERE = PRODUCT + ("tests",)

SOURCE = (".cc", ".c", ".cpp")
HEADER = (".h", ".hpp")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def files(root, suffixes=None, under=("",)):
    """Paths below root, relative to it, in order; build trees and hidden folders left out."""
    found = []
    for top in under:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            rel = os.path.relpath(folder, root)
            folders[:] = sorted(
                f for f in folders
                if f not in (".git", ".cache", "__pycache__") and not (rel == "." and f == "build"))
            found += [os.path.normpath(os.path.join(rel, n)) for n in sorted(names)
                      if suffixes is None or n.endswith(suffixes)]
    return found


def lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace", newline="") as f:
        return f.read().split("\n")


def includes(root, path):
    for number, line in enumerate(lines(root, path), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def resolve(root, includer, name):
    """The file of the tree that an include names, or None for one of the system's."""
    here = os.path.dirname(includer)
    for base in ("include", "src", "", here):
        path = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


def part_of(path):
    folder = os.path.dirname(path)
    while folder:
        if folder in RANKS:
            return folder
        folder = os.path.dirname(folder)
    return None


def front_end_of(path):
    """The folder of a front-end that holds path, or None."""
    parts = path.split("/")
    depth = FRONT_ENDS.count("/") + 1
    inside = path.startswith(FRONT_ENDS + "/") and len(parts) > depth + 1
    return "/".join(parts[:depth + 1]) if inside else None


def rank_violation(path, name, target):
    part, other = part_of(path), part_of(target)
    if target not in (f"src/{name}", f"include/{name}") and other != name.split("/")[0]:
        return f'"{name}" is not written from src/ or include/'
    if other is None:
        return f"{target} has no rank"
    if other != part and RANKS[other] >= RANKS[part]:
        return f"{part} may not include {target}: its rank is not lower"
    if other == part and front_end_of(target) not in (None, front_end_of(path)):
        return f"{target} belongs to another front-end"
    return None


def check_ranks(root, _build):
    for path in files(root, SOURCE + HEADER, PRODUCT):
        if part_of(path) is None:
            yield f"{path}:1: this folder has no rank in {os.path.basename(__file__)}"
            continue
        for number, bracket, name in includes(root, path):
            target = resolve(root, path, name)
            why = None
            if target is not None:
                why = rank_violation(path, name, target)
            elif bracket == '"':
                why = f'"{name}" is not in the tree'
            if why:
                yield f"{path}:{number}: {why}"


def registered_tests(build):
    """What CTest will run, as the text of its files."""
    found = []
    for folder, _, names in os.walk(build):
        if "CTestTestfile.cmake" in names:
            with open(os.path.join(folder, "CTestTestfile.cmake"), encoding="utf-8") as f:
                found.append(f.read())
    return "\n".join(found)


def check_orphans(root, build):
    try:
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
            compiled = {os.path.realpath(entry["file"]) for entry in json.load(f)}
    except OSError as error:
        yield f"{error.filename}:1: {error.strerror}: configure the build with -DUZRAM_TESTS=ON"
        return
    tests = registered_tests(build)

    def is_run(path):
        full = os.path.join(os.path.realpath(root), path)
        return re.search(re.escape(full) + r"(?![\w.])", tests)

    for path in files(root, SOURCE, EVERYWHERE):
        if os.path.realpath(os.path.join(root, path)) not in compiled and not is_run(path):
            yield f"{path}:1: compiled by no target"

    scripts = files(root, (".py", ".sh"), ("tests",))
    texts = {path: "\n".join(lines(root, path)) for path in scripts}
    for path in scripts:
        stem = re.escape(os.path.splitext(os.path.basename(path))[0])
        used = any(re.search(rf"\b{stem}\b", text) for p, text in texts.items() if p != path)
        if not is_run(path) and not used:
            yield f"{path}:1: run by no test and used by no script"

    included = {resolve(root, path, name)
                for path in files(root, SOURCE + HEADER, EVERYWHERE)
                for _, _, name in includes(root, path)}
    for path in files(root, HEADER, EVERYWHERE):
        if path not in included:
            yield f"{path}:1: included by nothing"


def check_format(root, _build):
    tool = shutil.which("clang-format")
    if tool is None:
        print("SKIP: clang-format is not installed")
        sys.exit(77)
    todo = files(root, SOURCE + HEADER, EVERYWHERE)
    if not todo:
        return
    run = subprocess.run([tool, "--style=file", "--dry-run", "-Werror", *todo],
                         cwd=root, capture_output=True, text=True, check=False)
    seen = set()
    for line in run.stderr.splitlines():
        match = re.match(r"(.*?):(\d+):\d+: error: ", line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            yield f"{match.group(1)}:{match.group(2)}: clang-format would change this file"
    if run.returncode != 0 and not seen:
        yield f"{tool}:1: {run.stderr.strip()}"


# The brackets keep this file from finding itself.
BANNED = (
    (re.compile(r"/wor[k]/"), "a path of one machine"),
    (re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b"), "work left open"),
    (re.compile(r"[ \t]+$"), "trailing blank"),
    (re.compile(r"\t"), "tab"),
    (re.compile(r"\r$"), "carriage return"),
)
BINARY = (".png", ".gz", ".zst", ".bin", ".img")


def check_text(root, _build):
    for path in files(root):
        if path.endswith(BINARY):
            continue
        text = lines(root, path)
        for number, line in enumerate(text, 1):
            for pattern, why in BANNED:
                if pattern.search(line):
                    yield f"{path}:{number}: {why}"
        if text[-1] != "":
            yield f"{path}:{len(text)}: no newline at the end"


def check_scripts(root, _build):
    for path in files(root):
        full = os.path.join(root, path)
        first = lines(root, path)[0]
        if path.endswith(".py"):
            try:
                ast.parse("\n".join(lines(root, path)), path)
            except SyntaxError as error:
                yield f"{path}:{error.lineno}: {error.msg}"
        if path.endswith(".sh") or re.match(r"#!.*\b(ba)?sh\b", first):
            run = subprocess.run(["bash", "-n", full], capture_output=True, text=True, check=False)
            if run.returncode != 0:
                yield f"{path}:1: {run.stderr.strip()}"
        if first.startswith("#!") and not os.access(full, os.X_OK):
            yield f"{path}:1: has a #! line and is not executable"


CHECKS = {
    "ranks": check_ranks,
    "orphans": check_orphans,
    "format": check_format,
    "text": check_text,
    "scripts": check_scripts,
}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="Checks of the source tree.")
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--root", default=os.path.normpath(os.path.join(here, "..", "..")))
    parser.add_argument("--build")
    args = parser.parse_args()
    build = args.build or os.path.join(args.root, "build", "release")
    violations = list(CHECKS[args.check](args.root, build))
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
