"""One walk through a workflow, the same for every client: each check of it is a cell of the table that `judges/table`
prints. The walk acts only on the text that a client gives its model."""

import json
import re
from contextlib import contextmanager

STEPS_MAX = 20
TOOLS = {"list_workflows", "start_workflow", "continue_workflow", "checkpoint_workflow", "resume_session", "read_run"}
GOAL = "be judged"
# A line of the first step. A model must read it once in each reply that shows the step.
PROMPT_LINE = "Find out what the change is for before you edit anything."


class CheckFailed(Exception):
    pass


class Cells:
    """Prints `cell: CLIENT | VERSION | CHECK | RESULT` for each check."""

    def __init__(self, client, version):
        self.client, self.version, self.passed, self.failed = client, version, 0, []

    @contextmanager
    def check(self, name):
        try:
            yield
        except Exception as error:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            reason = str(error) or type(error).__name__
            self.cell(name, f"no: {reason.splitlines()[0][:80]}")
            self.failed.append(f"{name}: {type(error).__name__}: {error}")
            raise CheckFailed from error
        self.cell(name, "ok")
        self.passed += 1

    def cell(self, name, result):
        print(f"cell: {self.client} | {self.version} | {name} | {result.replace('|', '/')}", flush=True)

    def verdict(self):
        """Prints how many checks passed and what failed; returns the exit code."""
        print(f"{self.client}: {self.passed} passed, {len(self.failed)} failed", flush=True)
        for line in self.failed:
            print(f"  {line}", flush=True)
        return 1 if self.failed else 0


def next_call(text):
    """The call that a text ends with, as a model reads it."""
    calls = re.findall(r"(\w+_\w+) with:?\s+(\{.*\})", text)
    assert calls, f"no next call in: {text}"
    return calls[-1][0], json.loads(calls[-1][1])


def is_complete(text):
    """A reply about a run without a pending step."""
    return text.startswith("Run ") and " · step " not in text.split("\n")[0]


def blocks(content, structured=None):
    """The text of a result and everything that a model is given of it."""
    text = "\n\n".join(item.text for item in content)
    return text, text if structured is None else text + json.dumps(structured)


async def walk(cells, connect):
    """`connect()` opens a client as an async context manager: the names of its tools and `call(tool, arguments)`,
    which returns the text of a result and everything that the model is given of it."""
    counts = []

    def counted(call):
        async def counting(tool, arguments):
            text, whole = await call(tool, arguments)
            if PROMPT_LINE in text:
                counts.append(whole.count(PROMPT_LINE))
            return text

        return counting

    async with connect() as (names, call):
        call = counted(call)
        with cells.check("lists tools"):
            assert TOOLS <= set(names), f"only {sorted(names)}"
        with cells.check("starts"):
            text = await call("start_workflow", {"workflowId": "wr.small_change", "goal": GOAL})
            assert text.startswith("Run ") and " · step 1 " in text, f"the step does not come first: {text}"
            tool, arguments = next_call(text)
        with cells.check("error leads on"):
            text = await call(tool, {"ackToken": arguments["ackToken"][:-3]})
            assert text.lstrip().startswith("TOKEN_"), f"the error does not come first: {text}"
            text = await call(*next_call(text))
            assert " · step 1 " in text, f"the error does not lead back to the step: {text}"
        with cells.check("continues"):
            tool, arguments = next_call(text)
            without_notes = {name: value for name, value in arguments.items() if name != "output"}
            text = await call(tool, without_notes)
            assert "MISSING_REQUIRED_NOTES" in text, f"a step without notes is not blocked: {text}"
            tool, arguments = next_call(text)
            arguments["output"]["notesMarkdown"] = "Did what the step says."
            text = await call(tool, arguments)
            assert " · step 2 " in text, f"the second step does not follow: {text}"
        with cells.check("replays"):
            again = await call(tool, arguments)
            assert again == text, f"the same call has another reply: {again}"
    async with connect() as (names, call):
        call = counted(call)
        with cells.check("resumes"):
            text = await call("resume_session", {"query": GOAL})
            for _ in range(STEPS_MAX):
                if is_complete(text):
                    break
                tool, arguments = next_call(text)
                arguments["output"]["notesMarkdown"] = "Did what the step says."
                text = await call(tool, arguments)
            assert is_complete(text), "the run does not end"
    with cells.check("sees text once"):
        assert counts and set(counts) == {1}, f"the step is shown {max(counts)} times"
