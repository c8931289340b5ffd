"""Agent frameworks as clients: each lists the tools in its own way, calls them as its models would, and is read as its
models would: the text alone must lead through a whole run with a blocked step and an error."""

import asyncio
import json
import os
import re
import sys
import tempfile

PROGRAM = os.environ["WORKRAIL_PROGRAM"]
STEPS_MAX = 20
TOOLS = {"list_workflows", "start_workflow", "continue_workflow", "checkpoint_workflow", "resume_session", "read_run"}


def next_call(text):
    """The call that a text ends with, as a model reads it."""
    calls = re.findall(r"(\w+_\w+) with:?\s+(\{.*\})", text)
    assert calls, f"no next call in: {text}"
    return calls[-1][0], json.loads(calls[-1][1])


async def drive(call):
    """`call(tool, arguments)` returns the text that the framework gives its model."""
    text = await call("start_workflow", {"workflowId": "wr.small_change", "goal": "be judged"})
    assert text.startswith("Run "), f"the step does not come first: {text}"
    tool, arguments = next_call(text)
    without_notes = {name: value for name, value in arguments.items() if name != "output"}
    text = await call(tool, without_notes)
    assert "MISSING_REQUIRED_NOTES" in text, text
    broken = await call("continue_workflow", {"ackToken": arguments["ackToken"][:-3]})
    assert next_call(broken)[0] == "continue_workflow", broken
    for _ in range(STEPS_MAX):
        if " · step " not in text.split("\n")[0]:
            return
        tool, arguments = next_call(text)
        arguments["output"]["notesMarkdown"] = "Did what the step says."
        text = await call(tool, arguments)
    raise AssertionError("the run does not end")


def empty(schema):
    """What a strict model sends for an argument that it has nothing to say about."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds or any(choice.get("type") == "null" for choice in schema.get("anyOf", [])):
        return None
    if "object" in kinds:
        return {name: empty(member) for name, member in schema.get("properties", {}).items()}
    return schema["enum"][0] if "enum" in schema else [] if "array" in kinds else ""


async def fastmcp(data):
    from fastmcp import Client

    server = {"command": PROGRAM, "args": ["mcp"], "env": {"WORKRAIL_DATA_DIR": data}}
    async with Client({"mcpServers": {"workrail": server}}) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert TOOLS <= names, names
        assert "resume" in {prompt.name for prompt in await client.list_prompts()}

        async def call(tool, arguments):
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            return "\n\n".join(item.text for item in result.content)

        await drive(call)


async def openai_agents(data):
    from agents import Agent, RunContextWrapper
    from agents.mcp import MCPServerStdio, MCPUtil
    from agents.tool_context import ToolContext

    params = {"command": PROGRAM, "args": ["mcp"], "env": {"WORKRAIL_DATA_DIR": data}}
    async with MCPServerStdio(params=params) as server:
        agent = Agent(name="judge")
        tools = await MCPUtil.get_function_tools(server, True, RunContextWrapper(None), agent)
        tools = {tool.name: tool for tool in tools}
        assert TOOLS <= tools.keys(), tools.keys()

        async def call(tool, arguments):
            # A strict schema makes the model send every property, empty where it has nothing to say.
            properties = tools[tool].params_json_schema["properties"]
            sent = json.dumps({name: arguments.get(name, empty(schema)) for name, schema in properties.items()})
            context = ToolContext(None, tool_name=tool, tool_call_id="1", tool_arguments=sent)
            result = await tools[tool].on_invoke_tool(context, sent)
            if isinstance(result, dict):
                return result["text"]
            return result if isinstance(result, str) else "\n\n".join(item["text"] for item in result)

        await drive(call)


async def google_genai(data):
    """Its converter makes function declarations of the tools; it must take every one of them."""
    from google.genai import _mcp_utils
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=PROGRAM, args=["mcp"], env={"WORKRAIL_DATA_DIR": data})
    async with Client(server) as client:
        listed = (await client.list_tools()).tools
        declared = [_mcp_utils.mcp_to_gemini_tool(tool).function_declarations[0] for tool in listed]
        assert TOOLS <= {tool.name for tool in declared}

        async def call(tool, arguments):
            # Gemini CLI adds this to every tool and tells its model to set it.
            result = await client.call_tool(tool, {**arguments, "wait_for_previous": True})
            return "\n\n".join(item.text for item in result.content)

        await drive(call)


async def pydantic_ai(data):
    from pydantic_ai import ModelRetry
    from pydantic_ai.mcp import MCPToolset

    server = {"command": PROGRAM, "args": ["mcp"], "env": {"WORKRAIL_DATA_DIR": data}}
    async with MCPToolset({"mcpServers": {"workrail": server}}) as toolset:
        names = {tool.name for tool in await toolset.list_tools()}
        assert TOOLS <= names, names

        async def call(tool, arguments):
            try:
                result = await toolset.direct_call_tool(tool, arguments)
            except ModelRetry as retry:
                # An error goes back to the model as the reason to try again.
                return retry.message
            return result if isinstance(result, str) else "\n\n".join(str(part) for part in result)

        await drive(call)


async def main():
    failed = 0
    for judge in (fastmcp, openai_agents, google_genai, pydantic_ai):
        with tempfile.TemporaryDirectory() as data:
            try:
                await judge(data)
                print(f"{judge.__name__}: 1 passed, 0 failed", flush=True)
            except Exception as error:
                # The verdict of one judge must not hide the next.
                failed = 1
                while isinstance(error, ExceptionGroup):
                    error = error.exceptions[0]
                print(f"{judge.__name__}: 0 passed, 1 failed\n  {type(error).__name__}: {error}", flush=True)
    return failed


sys.exit(asyncio.run(main()))
