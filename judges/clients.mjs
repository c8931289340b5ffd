// The same walk through each official client. With any client, transport and era, the durable history is the same.

import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as second from '@modelcontextprotocol/client';
import { StdioClientTransport as SecondStdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { program, verdict, versionOf, whileServing, withDataDirectory } from './server.mjs';
import { Cells, blocks, expect, walk } from './walk.mjs';

const here = dirname(fileURLToPath(import.meta.url));

async function opened(client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  return {
    names: tools.map((tool) => tool.name),
    call: async (name, args) => blocks(await client.callTool({ name, arguments: args })),
    close: () => client.close(),
  };
}

/// Version 1 of the TypeScript SDK; `transport()` makes a connection.
function typescript1(transport) {
  const cells = new Cells('TypeScript SDK 1', versionOf('@modelcontextprotocol/sdk'));
  return walk(cells, () => opened(new Client({ name: 'judge', version: '1' }), transport()));
}

/// Version 2, in an era: `legacy`, `auto` or a required revision.
function typescript2(era, transport) {
  const cells = new Cells('TypeScript SDK 2', versionOf('@modelcontextprotocol/client'));
  const mode = era === 'legacy' || era === 'auto' ? era : { pin: era };
  return walk(cells, async () => {
    const client = new second.Client({ name: 'judge', version: '1' }, { versionNegotiation: { mode } });
    const own = await opened(client, transport());
    const expected = era === 'legacy' ? '2025-11-25' : '2026-07-28';
    const negotiated = client.getNegotiatedProtocolVersion();
    expect(negotiated === expected, `negotiated ${negotiated} and not ${expected}`);
    return own;
  });
}

function python(era, target) {
  const run = spawnSync(process.env.WORKRAIL_PYTHON, [join(here, 'client.py'), era, ...target], { encoding: 'utf8' });
  process.stdout.write(run.stdout);
  if (run.status !== 0) throw new Error(run.stderr || run.stdout);
}

const command = (data) => ({ command: program, args: ['mcp'], env: { WORKRAIL_DATA_DIR: data }, stderr: 'inherit' });
const stdio = (data) => () => new StdioClientTransport(command(data));
const secondStdio = (data) => () => new SecondStdioClientTransport(command(data));
const http = (data, use) => whileServing(program, ['mcp', '--http', '127.0.0.1:0', '--no-auth'], data, use);
/// The same with the secret that the server requires by default.
const authenticated = (data, use) =>
  whileServing(program, ['mcp', '--http', '127.0.0.1:0'], data, (url) => {
    const secret = readFileSync(join(data, 'keys', 'http-secret'), 'utf8').trim();
    return use(url, { requestInit: { headers: { Authorization: `Bearer ${secret}` } } });
  });
/// A team's server, and a member's token.
const team = (data, use) => {
  const create = ['team', 'token', 'create', 'judge', '--role', 'agent', '--json'];
  const made = spawnSync(program, create, { encoding: 'utf8', env: { PATH: process.env.PATH, WORKRAIL_DATA_DIR: data } });
  if (made.status !== 0) throw new Error(made.stderr);
  const { token } = JSON.parse(made.stdout);
  return whileServing(program, ['serve', '--listen', '127.0.0.1:0'], data, (url) =>
    use(url, { requestInit: { headers: { Authorization: `Bearer ${token}` } } }),
  );
};
const secondHttp = (url, options) => () => new second.StreamableHTTPClientTransport(new URL(url), options);

const runs = {
  'TypeScript 1, stdio, 2025-11-25': (data) => typescript1(stdio(data)),
  'TypeScript 1, HTTP, 2025-11-25': (data) =>
    authenticated(data, (url, options) => typescript1(() => new StreamableHTTPClientTransport(new URL(url), options))),
  'TypeScript 1, team server, 2025-11-25': (data) =>
    team(data, (url, options) => typescript1(() => new StreamableHTTPClientTransport(new URL(url), options))),
  'TypeScript 2, team server, discovered': (data) =>
    team(data, (url, options) => typescript2('auto', secondHttp(url, options))),
  'TypeScript 2, stdio, 2025-11-25': (data) => typescript2('legacy', secondStdio(data)),
  'TypeScript 2, stdio, 2026-07-28': (data) => typescript2('2026-07-28', secondStdio(data)),
  'TypeScript 2, HTTP, discovered': (data) =>
    authenticated(data, (url, options) => typescript2('auto', secondHttp(url, options))),
  'Python 2, stdio, 2025-11-25': async (data) => python('legacy', ['stdio', program, data]),
  'Python 2, stdio, 2026-07-28': async (data) => python('2026-07-28', ['stdio', program, data]),
  'Python 2, HTTP, discovered': (data) => http(data, async (url) => python('auto', ['http', url])),
};

/// What happened, without what always differs: ids, tokens, digests, times.
function history(data) {
  const sessions = join(data, 'sessions');
  return readdirSync(sessions).map((session) => {
    const events = join(sessions, session, 'events');
    const segments = readdirSync(events).filter((name) => name.endsWith('.jsonl')).sort();
    const lines = segments.flatMap((name) => readFileSync(join(events, name), 'utf8').trimEnd().split('\n'));
    return lines.map((line) => {
      const { eventIndex, kind, data } = JSON.parse(line);
      return `${eventIndex} ${kind} {${Object.keys(data).sort().join(',')}}`;
    });
  });
}

const failures = [];
let passed = 0;
let first;
for (const [name, run] of Object.entries(runs)) {
  try {
    const seen = await withDataDirectory(async (data) => {
      await run(data);
      return JSON.stringify(history(data), null, 1);
    });
    first ??= { name, seen };
    if (seen !== first.seen) throw new Error(`its history is not that of ${first.name}:\n${seen}\n${first.seen}`);
    passed += 1;
  } catch (error) {
    failures.push(`${name}: ${error.stack ?? error}`);
  }
}
const events = first ? JSON.parse(first.seen).flat().length : 0;
verdict(`clients, one run each of ${events} events`, passed, failures);
