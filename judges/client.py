"""A full run of one workflow through the official Python client, exactly as each reply's nextCall says."""

import asyncio
import sys

from mcp import Client, StdioServerParameters

STEPS_MAX = 50


async def call(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(result.content)
    return result.meta["workrail/reply"]


async def main(era, transport, target, data=None):
    if transport == "stdio":
        server = StdioServerParameters(command=target, args=["mcp"], env={"WORKRAIL_DATA_DIR": data})
    else:
        server = target
    async with Client(server, mode=era) as client:
        expected = "2025-11-25" if era == "legacy" else "2026-07-28"
        assert client.protocol_version == expected, client.protocol_version
        await client.list_tools()
        reply = await call(client, "start_workflow", {"workflowId": "wr.small_change", "goal": "be judged"})
        step = 0
        while not reply["isComplete"]:
            step += 1
            assert step <= STEPS_MAX, "the run does not end"
            arguments = reply["nextCall"]["arguments"]
            if "notesMarkdown" in arguments.get("output", {}):
                arguments["output"]["notesMarkdown"] = f"Step {step} was done."
            reply = await call(client, reply["nextCall"]["tool"], arguments)


asyncio.run(main(*sys.argv[1:]))
