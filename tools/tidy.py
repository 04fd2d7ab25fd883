#!/usr/bin/env python3
"""clang-tidy on one file, unless the same text has passed before.

    tidy.py BUILD_FOLDER FILE

Exit code and output are clang-tidy's. What passed is remembered in the user's
cache (sluice/tidy) by the hash of the preprocessed file, of the configurations
above it and of clang-tidy's version; a pass that is remembered prints nothing.
"""
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

TIDY = "clang-tidy-19"


def command_of(build, file):
    """The compile command of a file and its folder."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if pathlib.Path(entry["directory"], entry["file"]).resolve() == file:
            return shlex.split(entry["command"]), entry["directory"]
    sys.exit(f"{file}: not in {build}/compile_commands.json")


def preprocessed(build, file):
    command, folder = command_of(build, file)
    del command[command.index("-o"):command.index("-o") + 2]
    command[command.index("-c")] = "-E"
    # With comments: NOLINT is one. Without the paths of this tree.
    run = subprocess.run(command + ["-C", "-P"], cwd=folder, check=True, capture_output=True)
    return run.stdout


def key_of(build, file):
    text = hashlib.sha256(preprocessed(build, file))
    text.update(subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout)
    for folder in file.parents:
        if (folder / ".clang-tidy").exists():
            text.update((folder / ".clang-tidy").read_bytes())
        if (folder / ".git").exists():
            break
    return text.hexdigest()


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    build, file = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "sluice", "tidy")
    mark = cache / key_of(build, file)
    if mark.exists():
        return 0
    code = subprocess.run([TIDY, "-p", str(build), "--quiet", str(file)]).returncode
    if code == 0:
        cache.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return code


if __name__ == "__main__":
    sys.exit(main())
