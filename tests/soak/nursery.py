# SPDX-License-Identifier: Apache-2.0
"""Starts ranks whose imports are done: nursery.py SOCKET serves, and as a program called SOCKET asks.

A rank imports PyTorch for 10 s of a CPU, and trains for one. The server has imported what is not the
trainer's, and forks for each call: its child takes the caller's arguments, environment, folder and
outputs. A caller that is killed ends its child, and a child's exit status is the caller's.
"""
import array
import json
import os
import signal
import socket
import sys

MEMORY_B = 8 << 30


def ask(place, words):
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(place)
    told = json.dumps({"argv": words, "env": dict(os.environ), "cwd": os.getcwd()}).encode()
    line.sendmsg([len(told).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    line.sendall(told)
    signal.signal(signal.SIGTERM, lambda *_: line.sendall(b"t"))
    answer = line.recv(8)
    code = int(answer or b"1")
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def become(told, fds):
    """In the child: the rank. One that grows without an end must not take the machine with it."""
    import resource
    import runpy
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_B, MEMORY_B))
    for at, fd in enumerate(fds):
        os.dup2(fd, at)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    sys.argv = told["argv"]
    sys.path[:0] = [os.path.dirname(sys.argv[0])] + [one for one in told["env"].get("PYTHONPATH", "").split(":") if one]
    sys.stdout.reconfigure(line_buffering=True)
    runpy.run_path(sys.argv[0], run_name="__main__")


def serve_one(line):
    import threading
    head, fds, _, _ = socket.recv_fds(line, 8, 3)
    told = b""
    size = int.from_bytes(head, "big")
    while len(told) < size:
        told += line.recv(size - len(told))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        become(json.loads(told), fds)
        sys.stdout.flush()
        sys.exit(0)

    def watch():
        while (said := line.recv(1)) == b"t":
            os.kill(child, signal.SIGTERM)
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
    threading.Thread(target=watch, daemon=True).start()
    _, status = os.waitpid(child, 0)
    try:
        line.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    except OSError:
        pass
    os._exit(0)


def serve(place, modules):
    import importlib
    for one in modules:
        try:
            importlib.import_module(one)
        except ImportError as error:
            print(one, error, flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(place)
    door.listen(64)
    print("ready", flush=True)
    while True:
        line, _ = door.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            door.close()
            serve_one(line)
        line.close()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    ask(sys.argv[1], sys.argv[2:])
