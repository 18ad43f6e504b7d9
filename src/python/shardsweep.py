# SPDX-License-Identifier: Apache-2.0
"""What sweeps have measured, for Python; nothing is ever written.

    import shardsweep
    shardsweep.best("my.db")                   # a dict for each cell: its fastest layout, how sure
    shardsweep.results("my.db", frame=True)    # a pandas frame: one row for each trial

`python -m shardsweep` is the program itself. Columns: `shardsweep help columns`.
"""
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys

__all__ = ["Error", "best", "program", "results"]


class Error(Exception):
    """The program has refused: its own words."""


def program():
    """The path of the program `shardsweep` that this package has brought, or else of the one on PATH."""
    try:
        files = importlib.metadata.files("shardsweep") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "shardsweep" and file.parent.name == "bin":
            return str(pathlib.Path(file.locate()).resolve())
    found = shutil.which("shardsweep")
    if found is None:
        raise Error("there is no program 'shardsweep', in this package or on PATH")
    return found


def results(db, sweep=None, frame=False):
    """One row for each trial, of all sweeps or of the named one: the view `results` of the database.

    The column `vars`, free axes of the sweep, is a dict.
    """
    condition = "1" if sweep is None else "sweep = '" + sweep.replace("'", "''") + "'"
    rows = _asked(db, "query", "SELECT * FROM results WHERE " + condition)
    for row in rows:
        row["vars"] = json.loads(row["vars"] or "{}")
    return _as(rows, frame)


def best(db, sweep=None, frame=False):
    """The fastest layout of each cell (model, sequence length, size), and how certain that is.

    Without `sweep`: of the sweep that was submitted last. It is what `shardsweep best` says.
    """
    return _as(_asked(db, "best", *([] if sweep is None else [sweep])), frame)


def _asked(db, *words):
    """Rows that the program prints: it knows who may open a database, and how, while a daemon writes."""
    command = [program(), *words, "--format", "json", "--db", os.fspath(db)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if not said.stdout.strip():
        raise Error(said.stderr.strip())
    return json.loads(said.stdout)


def _as(rows, frame):
    if not frame:
        return rows
    import pandas  # the one function that needs it

    return pandas.DataFrame(rows)


if __name__ == "__main__":
    os.execv(program(), [program(), *sys.argv[1:]])
