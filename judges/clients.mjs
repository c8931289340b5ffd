// A full run of one workflow through each official client, exactly as each reply's nextCall says. Whoever the
// client, whatever the transport and the era: the durable history is the same.

import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { program, verdict, whileServing, withDataDirectory } from './server.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const STEPS_MAX = 50;

async function drive(transport) {
  const client = new Client({ name: 'judge', version: '1' });
  await client.connect(transport);
  await client.listTools();
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    if (result.isError) throw new Error(JSON.stringify(result.content));
    return result._meta['workrail/reply'];
  };
  let reply = await call('start_workflow', { workflowId: 'wr.small_change', goal: 'be judged' });
  for (let step = 1; !reply.isComplete; step += 1) {
    if (step > STEPS_MAX) throw new Error('the run does not end');
    const { tool, arguments: args } = reply.nextCall;
    if (args.output?.notesMarkdown !== undefined) args.output.notesMarkdown = `Step ${step} was done.`;
    reply = await call(tool, args);
  }
  await client.close();
}

function python(era, target) {
  const run = spawnSync(process.env.WORKRAIL_PYTHON, [join(here, 'client.py'), era, ...target], { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(run.stderr || run.stdout);
}

const stdio = (data) =>
  new StdioClientTransport({ command: program, args: ['mcp'], env: { WORKRAIL_DATA_DIR: data }, stderr: 'inherit' });
const http = (data, use) => whileServing(program, ['mcp', '--http', '127.0.0.1:0', '--no-auth'], data, use);
/// The same with the secret that the server asks for by default.
const authenticated = (data, use) =>
  whileServing(program, ['mcp', '--http', '127.0.0.1:0'], data, (url) => {
    const secret = readFileSync(join(data, 'keys', 'http-secret'), 'utf8').trim();
    return use(url, { requestInit: { headers: { Authorization: `Bearer ${secret}` } } });
  });

const runs = {
  'TypeScript, stdio, 2025-11-25': (data) => drive(stdio(data)),
  'TypeScript, HTTP, 2025-11-25': (data) =>
    authenticated(data, (url, options) => drive(new StreamableHTTPClientTransport(new URL(url), options))),
  'Python, stdio, 2025-11-25': async (data) => python('legacy', ['stdio', program, data]),
  'Python, stdio, 2026-07-28': async (data) => python('2026-07-28', ['stdio', program, data]),
  'Python, HTTP, discovered': (data) => http(data, async (url) => python('auto', ['http', url])),
};

/// What happened, without what differs by nature: ids, tokens, digests, times.
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
