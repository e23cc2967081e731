"""How the wheel is built (PEP 517): maturin makes the module, and the program is put beside it.

The whole command line is one program, the crate hikyaku-cli. It goes into the wheel's scripts, from
where pip installs it as ``hikyaku``. It is not linked into the module: program and module are 8.2 and
4.2 MB (stripped, profile dev), so that every rank would import up to three times as much for what
launchers alone need, and `hikyaku bench`, which starts itself, would start interpreters as ranks.
"""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import *  # noqa: F403  the hooks that are maturin's alone

ROOT = Path(__file__).parents[2]

# What pyproject.toml calls data. maturin refuses to do anything without the folder.
SCRIPTS = ROOT / "target/wheel/scripts"
SCRIPTS.mkdir(parents=True, exist_ok=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _add_program()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _add_program()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def _add_program():
    """Builds the program as the module is built, and puts it where pyproject.toml's data is."""
    profile = shlex.split(os.environ.get("MATURIN_PEP517_ARGS", "")) or ["--release"]
    words = ["cargo", "build", "--locked", "-p", "hikyaku-cli", "--bin", "hikyaku", *profile]
    words += ["--message-format", "json-render-diagnostics"]
    built = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    artifacts = [json.loads(line) for line in built.splitlines()]
    [program] = [a["executable"] for a in artifacts if a.get("executable")]
    shutil.copy(program, SCRIPTS / "hikyaku")
    if profile == ["--release"]:
        subprocess.run(["strip", SCRIPTS / "hikyaku"], check=False)
