"""The walk through the official Python client: `client.py ERA stdio PROGRAM DATA` or `client.py ERA http URL`."""

import asyncio
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version

from mcp import Client, StdioServerParameters

from walk import Cells, CheckFailed, blocks, walk


async def main(era, transport, target, data=None):
    if transport == "stdio":
        server = StdioServerParameters(command=target, args=["mcp"], env={"WORKRAIL_DATA_DIR": data})
    else:
        server = target

    @asynccontextmanager
    async def connect():
        async with Client(server, mode=era) as client:
            expected = "2025-11-25" if era == "legacy" else "2026-07-28"
            assert client.protocol_version == expected, client.protocol_version

            async def call(tool, arguments):
                result = await client.call_tool(tool, arguments)
                return blocks(result.content, result.structured_content)

            yield [tool.name for tool in (await client.list_tools()).tools], call

    cells = Cells("Python SDK 2", version("mcp"))
    try:
        await walk(cells, connect)
    except CheckFailed:
        pass
    if cells.failed:
        sys.exit("\n".join(cells.failed))


asyncio.run(main(*sys.argv[1:]))
