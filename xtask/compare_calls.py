#!/usr/bin/env python3
"""Compares what calls cost in two builds of WorkRail: xtask/compare_calls.py OLD NEW [ROUNDS].

Both servers run at the same time and get the same calls in turns, so that a busy disk slows both alike. Prints the
median of each and the median of the ratios of pairs. Needs nothing but Python.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = 80
PAUSE_SECONDS = 0.002


def workflow():
    steps = [
        {"id": f"step-{n}", "title": f"Step {n}", "prompt": f"Do step {n}. " + "x" * 200} for n in range(STEPS)
    ]
    return {"id": "bench-linear", "name": "Linear", "description": "Steps.", "version": "1.0.0", "steps": steps}


class Server:
    def __init__(self, program, root):
        for name in ("data", "home", "project/workflows"):
            os.makedirs(os.path.join(root, name))
        self.project = os.path.join(root, "project")
        with open(os.path.join(self.project, "workflows", "bench.json"), "w", encoding="utf-8") as file:
            json.dump(workflow(), file)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.path.join(root, "home"),
            "WORKRAIL_DATA_DIR": os.path.join(root, "data"),
        }
        self.process = subprocess.Popen(
            [program, "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=self.project,
        )
        self.number = 0
        client = {"name": "compare", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.number += 1
        begin = time.perf_counter()
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        line = self.process.stdout.readline()
        self.taken_ms = (time.perf_counter() - begin) * 1000
        return json.loads(line)["result"]

    def call(self, tool, **arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            sys.exit(f"{tool}: {result['content'][0]['text']}")
        # Older programs send the data as structured content only.
        return result.get("_meta", {}).get("workrail/reply") or result["structuredContent"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(servers, rounds):
    times = {}
    order = [0, 1]

    def both(name, call):
        """Makes the same call to both, each time in the other order."""
        order.reverse()
        replies = [None, None]
        for at in order:
            replies[at] = call(servers[at], at)
            times.setdefault(name, ([], []))[at].append(servers[at].taken_ms)
            time.sleep(PAUSE_SECONDS)
        return replies

    for number in range(rounds):
        replies = both("start", lambda server, at: server.call("start_workflow", workflowId="bench-linear", goal=f"goal {number}"))
        for step in range(60 if number % 4 == 0 else 20):
            output = {"notesMarkdown": f"note {step} " + f"word{step} alpha beta gamma " * 40}
            acks = [reply["ackToken"] for reply in replies]
            name = "advance, steps 1 to 20" if step < 20 else "advance, steps 21 to 60"
            advance = lambda server, at: server.call("continue_workflow", ackToken=acks[at], output=output)
            replies = both(name, advance)
            if step % 5 == 0:
                both("repeated ack", advance)
                states = [reply["stateToken"] for reply in replies]
                both("rehydrate", lambda server, at: server.call("continue_workflow", stateToken=states[at]))
        tokens = [reply["checkpointToken"] for reply in replies]
        notes = {"notesMarkdown": "Half of it is done."}
        both("checkpoint", lambda server, at: server.call("checkpoint_workflow", checkpointToken=tokens[at], output=notes))
    return times


def main():
    programs, rounds = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 24
    if len(programs) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as root:
        servers = [Server(os.path.abspath(program), os.path.join(root, str(at))) for at, program in enumerate(programs)]
        times = compare(servers, rounds)
        for server in servers:
            server.close()
    for name, (old, new) in times.items():
        ratios = [after / before for before, after in zip(old, new)]
        print(
            f"{name:<24} {len(old):>5} pairs  {statistics.median(old):>8.3f} ms  {statistics.median(new):>8.3f} ms  "
            f"ratio {statistics.median(ratios):.2f}"
        )


if __name__ == "__main__":
    main()
