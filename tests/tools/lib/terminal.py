#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a pseudo-terminal and plays what it writes on a screen.

    terminal.py --width 80 [--height 24] [--raw FILE] [--screens FILE] [--signal-after TEXT]
                [--go-after REGEX FIFO] -- COMMAND...

Prints the screen with what has scrolled off it. Exit code: the command's, or 99 where a line
was wider than the terminal or a code is not one of the few that shardsweep writes.
--screens keeps each state of the screen, --signal-after types Ctrl-C when TEXT is on it; --go-after
lets those go on that read FIFO, when a line of it matches.
"""
import argparse
import codecs
import fcntl
import os
import pty
import re
import struct
import sys
import termios
import unicodedata

CODE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class Screen:
    """What xterm does with the codes that shardsweep uses."""

    def __init__(self, width):
        self.width = width
        self.lines = [""]
        self.row = self.column = 0
        self.faults = []
        self.colours = 0
        self.moves = 0

    def put(self, char):
        wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if unicodedata.combining(char):
            wide = 0
        if self.column + wide > self.width:
            self.faults.append("a line wraps: " + self.lines[self.row])
            self.newline()
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
        self.column += wide

    def newline(self):
        self.row += 1
        self.column = 0
        while len(self.lines) <= self.row:
            self.lines.append("")

    def code(self, argument, letter):
        if letter == "A":
            self.moves += 1
            if int(argument or 1) > self.row:
                self.faults.append("moved above the first line")
            self.row = max(0, self.row - int(argument or 1))
        elif letter == "J" and argument in ("", "0"):
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif letter == "m":
            self.colours += 1
        else:
            self.faults.append("unknown code ESC[" + argument + letter)

    def feed(self, text):
        """What is left of `text` is the beginning of a code."""
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\x1b":
                found = CODE.match(text, at)
                if not found:
                    if len(text) - at < 12:
                        return text[at:]
                    self.faults.append("unknown escape " + repr(text[at : at + 8]))
                    at += 1
                    continue
                self.code(found.group(1), found.group(2))
                at = found.end()
                continue
            if char == "\n":
                self.newline()
            elif char == "\r":
                self.column = 0
            elif char == "\t":
                self.column = min(self.column // 8 * 8 + 8, self.width - 1)
            elif ord(char) < 32 or ord(char) == 127:
                if char != "\a":
                    self.faults.append("control character " + repr(char))
            else:
                self.put(char)
            at += 1
        return ""

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n") + "\n"


def let_go(fifo):
    """Who reads it, or has it open, gets its end; later ones find none."""
    writer = os.open(fifo, os.O_RDWR)
    os.unlink(fifo)
    os.close(writer)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--height", type=int, default=24)
    parser.add_argument("--raw")
    parser.add_argument("--screens")
    parser.add_argument("--signal-after")
    parser.add_argument("--go-after", nargs=2)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    # The size has to be there before the command looks.
    master, slave = pty.openpty()
    size = struct.pack("HHHH", options.height, options.width, 0, 0)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    child = os.fork()
    if child == 0:
        os.close(master)
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for descriptor in (0, 1, 2):
            os.dup2(slave, descriptor)
        os.environ.setdefault("TERM", "xterm")
        os.environ.pop("COLUMNS", None)
        os.execvp(options.command[0], options.command)
    os.close(slave)

    screen, screens, raw, rest = Screen(options.width), [], b"", ""
    signalled = False
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        raw += data
        rest = screen.feed(rest + decode(data))
        if not screens or screens[-1] != screen.text():
            screens.append(screen.text())
        if options.signal_after and not signalled and options.signal_after in screen.text():
            signalled = True
            os.write(master, b"\x03")
        if options.go_after and re.search(options.go_after[0], screen.text(), re.MULTILINE):
            let_go(options.go_after[1])
            options.go_after = None
    _, status = os.waitpid(child, 0)
    if options.raw:
        with open(options.raw, "wb") as file:
            file.write(raw)
    if options.screens:
        with open(options.screens, "w", encoding="utf-8") as file:
            file.write("----\n".join(screens))
    sys.stdout.write(screen.text())
    for fault in screen.faults[:5]:
        print("terminal:", fault, file=sys.stderr)
    print(f"terminal: {screen.colours} colours, {screen.moves} moves", file=sys.stderr)
    sys.exit(99 if screen.faults else os.waitstatus_to_exitcode(status))


main()
