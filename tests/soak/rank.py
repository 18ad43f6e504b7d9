# SPDX-License-Identifier: Apache-2.0
"""A rank of a real trainer, with what nobody told the sweep: rank.py TOLD SHIM SCRIPT ARGUMENTS…

TOLD is JSON. `before` is Python that runs first. `put` has pairs of a pattern and a text that takes its place:
in the arguments, one a line, and in each file of JSON or YAML among them. A pair that changes nothing is an error.
"""
import json
import os
import re
import runpy
import sys


def changed(text, pairs, done):
    for pattern, put in pairs:
        text, count = re.subn(pattern, put, text)
        if count:
            done.add(pattern)
    return text


def main():
    told, program, words = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
    pairs, done = told.get("put", []), set()
    words = changed("\n".join(words), pairs, done).split("\n") if pairs else words
    for at, word in enumerate(words):
        if pairs and word.endswith((".json", ".yaml")):
            with open(word, encoding="utf-8") as kept:
                text = changed(kept.read(), pairs, done)
            words[at] = f"{os.environ['TMPDIR']}/put.{os.getpid()}.{os.path.basename(word)}"
            with open(words[at], "w", encoding="utf-8") as kept:
                kept.write(text)
    idle = [pattern for pattern, _ in pairs if pattern not in done]
    if idle:
        sys.exit(f"changes nothing: {idle}")
    exec(told.get("before", ""), {})
    sys.argv = [program, *words]
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
