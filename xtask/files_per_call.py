#!/usr/bin/env python3
"""Count the source files that one start and one ack run through: files_per_call.py BINARY [WORKFLOW_ID]

The server runs under callgrind, which records only between a request and its reply. BINARY needs line tables, as the
dev profile builds them. Printed for each call: the files of our crates in which a line ran, those of them that call
another file of ours, and which of these are entered from more than one file (`model` and `ports` left out: they hold
the data that every layer shares)."""

import collections
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

OURS = re.compile(r"(?<![\w-])(crates/(?:cli|console|core|engine|host|mcp|model|ports|store-fs|store-pg)/src/.*\.rs)$")
SHARED = ("crates/model/", "crates/ports/")


class Server:
    def __init__(self, binary, root):
        self.root, self.calls = root, 0
        options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={root}/callgrind"]
        options += ["--compress-strings=no", "--compress-pos=no", "-q"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(root)}
        self.process = subprocess.Popen(
            ["valgrind", *options, binary, "mcp"], cwd=root, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        client = {"name": "files-per-call", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.calls += 1
        self.send({"id": self.calls, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.calls and "method" not in answer:
                return answer["result"]
        sys.exit("the server ended")

    def tool(self, name, arguments):
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            sys.exit(json.dumps(result, indent=1))
        return (result.get("_meta") or {}).get("workrail/reply") or result["structuredContent"]

    def control(self, *options):
        subprocess.run(["callgrind_control", *options, str(self.process.pid)], check=True, capture_output=True)

    def recorded(self, name, arguments):
        """The reply, and what callgrind wrote about the call."""
        self.control("--instr=on")
        self.control("--zero")
        reply = self.tool(name, arguments)
        before = set(glob.glob(f"{self.root}/callgrind*"))
        self.control("--dump")
        self.control("--instr=off")
        return reply, sorted(set(glob.glob(f"{self.root}/callgrind*")) - before)


def ours(path):
    found = OURS.search(path or "")
    return found.group(1) if found else None


def files_of(dumps):
    """The files in which a line ran, and for each file those of ours that call it."""
    ran, callers = set(), collections.defaultdict(set)
    for dump in dumps:
        here = called = None
        for line in open(dump, errors="replace"):
            key, _, value = line.rstrip("\n").partition("=")
            if key in ("fl", "fi", "fe"):
                here = value
            elif key in ("cfi", "cfl"):
                called = value
            elif key == "calls":
                source, target = ours(here), ours(called or here)
                if source and target and source != target:
                    callers[target].add(source)
                called = None
            elif line[:1].isdigit() and ours(here):
                ran.add(ours(here))
    return ran, callers


def show(name, dumps):
    ran, callers = files_of(dumps)
    calling = {source for sources in callers.values() for source in sources}
    passed = sorted(file for file in ran & calling if not file.startswith(SHARED))
    several = [file for file in passed if len(callers[file]) > 1]
    print(f"{name}: {len(ran)} files; {len(passed)} call others; {len(several)} are entered from several files")
    for file in several:
        print(f"  {file} <- {', '.join(sorted(callers[file]))}")


def main():
    binary = os.path.abspath(sys.argv[1])
    workflow = sys.argv[2] if len(sys.argv) > 2 else "wr.small_change"
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, pathlib.Path(folder))
        start = {"workflowId": workflow, "workspacePath": folder}
        # The first start compiles the workflow and fills caches; the second one is counted.
        server.tool("start_workflow", start)
        reply, dumps = server.recorded("start_workflow", start)
        show("start", dumps)
        output = {"notesMarkdown": "Read the sources and listed the functions that the change touches."}
        ack = {"ackToken": reply["ackToken"], "output": output}
        _, dumps = server.recorded("continue_workflow", ack)
        show("ack", dumps)
        server.process.stdin.close()
        server.process.wait()


main()
