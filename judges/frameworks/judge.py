"""Agent frameworks as clients: each lists the tools in its own way, calls them as its models would, and is read as its
models would: the text alone must lead through a whole run with a blocked step and an error.

    judge.py FRAMEWORK

One framework a process: some of them change how others behave.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from threading import Thread

from walk import Cells, CheckFailed, blocks, walk

PROGRAM = os.environ["WORKRAIL_PROGRAM"]


def server(data, **variables):
    return {"command": PROGRAM, "args": ["mcp"], "env": {"WORKRAIL_DATA_DIR": data, **variables}}


# Google's frameworks give the model the result as sent, including `_meta`.
SHOWS_META = {"WORKRAIL_TEXT_IN_DATA": "false"}


def empty(schema):
    """What a strict model sends for an argument that it has nothing to say about."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds or any(choice.get("type") == "null" for choice in schema.get("anyOf", [])):
        return None
    if "object" in kinds:
        return {name: empty(member) for name, member in schema.get("properties", {}).items()}
    return schema["enum"][0] if "enum" in schema else [] if "array" in kinds else ""


@asynccontextmanager
async def fastmcp(data):
    from fastmcp import Client

    async with Client({"mcpServers": {"workrail": server(data)}}) as client:
        assert "resume" in {prompt.name for prompt in await client.list_prompts()}

        async def call(tool, arguments):
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            return blocks(result.content, result.structured_content)

        yield [tool.name for tool in await client.list_tools()], call


@asynccontextmanager
async def openai_agents(data):
    from agents import Agent, RunContextWrapper
    from agents.mcp import MCPServerStdio, MCPUtil
    from agents.tool_context import ToolContext

    async with MCPServerStdio(params=server(data)) as connection:
        tools = await MCPUtil.get_function_tools(connection, True, RunContextWrapper(None), Agent(name="judge"))
        tools = {tool.name: tool for tool in tools}

        async def call(tool, arguments):
            # A strict schema makes the model send every property, empty if it has nothing to say.
            properties = tools[tool].params_json_schema["properties"]
            sent = json.dumps({name: arguments.get(name, empty(schema)) for name, schema in properties.items()})
            context = ToolContext(None, tool_name=tool, tool_call_id="1", tool_arguments=sent)
            result = await tools[tool].on_invoke_tool(context, sent)
            if isinstance(result, dict):
                result = [result]
            text = result if isinstance(result, str) else "\n\n".join(item["text"] for item in result)
            return text, text

        yield tools.keys(), call


class ScriptedGemini(BaseHTTPRequestHandler):
    """Google's model API on loopback: calls the tool that the judge wants, and keeps what it was shown of the result."""

    script = None

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.script["declared"] = [
            tool["name"] for tools in asked["tools"] for tool in tools["functionDeclarations"]
        ]
        last = asked["contents"][-1]["parts"][-1]
        if "functionResponse" in last:
            self.script["shown"] = last["functionResponse"]["response"]
            part = {"text": "ok"}
        elif self.script["call"]:
            part = {"functionCall": self.script["call"]}
        else:
            part = {"text": "ok"}
        candidate = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]}}
        body = json.dumps({"candidates": [candidate]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@asynccontextmanager
async def google_genai(data):
    """Its converter makes function declarations of the tools, and it calls them for a model on loopback."""
    from google import genai
    from mcp import Client, StdioServerParameters

    script = {"declared": [], "call": None, "shown": None}
    handler = type("Handler", (ScriptedGemini,), {"script": script})
    model = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=model.serve_forever, daemon=True).start()
    options = {"base_url": f"http://127.0.0.1:{model.server_port}"}
    google = genai.Client(api_key="scripted", http_options=options)
    try:
        async with Client(StdioServerParameters(**server(data, **SHOWS_META))) as client:

            async def ask():
                await google.aio.models.generate_content(
                    model="scripted", contents="Work.", config={"tools": [client.session]}
                )

            async def call(tool, arguments):
                # Gemini CLI adds this to every tool and tells its model to set it.
                script["call"] = {"name": tool, "args": {**arguments, "wait_for_previous": True}}
                script["shown"] = None
                await ask()
                return response_text(script["shown"])

            await ask()
            yield script["declared"], call
    finally:
        model.shutdown()
        model.server_close()


def response_text(response):
    """The text of a function response that holds a whole result, and everything that the model is given of it."""
    result = response.get("result") or response.get("error") or response
    return "\n\n".join(item["text"] for item in result["content"]), json.dumps(response)


@asynccontextmanager
async def pydantic_ai(data):
    from pydantic_ai import ModelRetry
    from pydantic_ai.mcp import MCPToolset

    async with MCPToolset({"mcpServers": {"workrail": server(data)}}) as toolset:

        async def call(tool, arguments):
            try:
                result = await toolset.direct_call_tool(tool, arguments)
            except ModelRetry as retry:
                # An error is returned to the model as the reason to try again.
                result = retry.message
            text = result if isinstance(result, str) else "\n\n".join(str(part) for part in result)
            return text, text

        yield [tool.name for tool in await toolset.list_tools()], call


@asynccontextmanager
async def python_sdk_1(data):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async with stdio_client(StdioServerParameters(**server(data))) as (reading, writing):
        async with ClientSession(reading, writing) as session:
            await session.initialize()

            async def call(tool, arguments):
                result = await session.call_tool(tool, arguments)
                return blocks(result.content, result.structuredContent)

            yield [tool.name for tool in (await session.list_tools()).tools], call


@asynccontextmanager
async def langchain(data):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    client = MultiServerMCPClient({"workrail": {"transport": "stdio", **server(data)}})
    async with client.session("workrail") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(tool, arguments):
            message = await tools[tool].ainvoke({"type": "tool_call", "name": tool, "args": arguments, "id": "1"})
            content = message.content
            text = content if isinstance(content, str) else "\n\n".join(block["text"] for block in content)
            return text, text

        yield tools.keys(), call


@asynccontextmanager
async def google_adk(data):
    """A whole agent of it, with a model that calls what the judge wants."""
    from google.adk.agents import LlmAgent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
    from google.genai import types
    from mcp import StdioServerParameters

    script = {"declared": [], "call": None, "shown": None}

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            declared = [tool.function_declarations or [] for tool in llm_request.config.tools]
            script["declared"] = [declaration.name for tools in declared for declaration in tools]
            last = llm_request.contents[-1].parts[-1]
            part = types.Part(text="ok")
            if last.function_response:
                script["shown"] = last.function_response.response
            elif script["call"]:
                part = types.Part(function_call=script["call"])
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    params = StdioConnectionParams(server_params=StdioServerParameters(**server(data, **SHOWS_META)), timeout=60)
    toolset = McpToolset(connection_params=params)
    runner = InMemoryRunner(agent=LlmAgent(name="judge", model=Scripted(model="scripted"), tools=[toolset]))
    try:
        session = await runner.session_service.create_session(app_name=runner.app_name, user_id="judge")

        async def ask():
            message = types.Content(role="user", parts=[types.Part(text="Work.")])
            async for _ in runner.run_async(user_id="judge", session_id=session.id, new_message=message):
                pass

        async def call(tool, arguments):
            script["call"] = types.FunctionCall(name=tool, args=arguments)
            script["shown"] = None
            await ask()
            return response_text(script["shown"])

        await ask()
        yield script["declared"], call
    finally:
        await runner.close()
        await toolset.close()


# The name in the table, and the package whose version is tested.
FRAMEWORKS = {
    "fastmcp": ("FastMCP", "fastmcp"),
    "openai_agents": ("openai-agents", "openai-agents"),
    "google_genai": ("google-genai", "google-genai"),
    "pydantic_ai": ("pydantic-ai", "pydantic-ai-slim"),
    "python_sdk_1": ("Python SDK 1", "mcp"),
    "langchain": ("langchain", "langchain-mcp-adapters"),
    "google_adk": ("google-adk", "google-adk"),
}


async def main(name):
    client, package = FRAMEWORKS[name]
    cells = Cells(client, version(package))
    with tempfile.TemporaryDirectory() as data:
        try:
            await walk(cells, partial(globals()[name], data))
        except Exception as error:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            if not isinstance(error, CheckFailed):
                cells.failed.append(f"{type(error).__name__}: {error}")
    return cells.verdict()


logging.disable(logging.WARNING)
sys.exit(asyncio.run(main(sys.argv[1])))
