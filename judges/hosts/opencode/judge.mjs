// The real opencode, offline, with a scripted model.

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { messages } from '../model.mjs';
import { installIn, judgeRails, variables } from '../rails.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const opencode = join(here, 'node_modules/opencode-linux-x64/bin/opencode');

const MODEL = { providerID: 'anthropic', modelID: 'claude-sonnet-4-5' };
const OFFLINE = { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' };

function configure(place, url, mcp) {
  const model = `${MODEL.providerID}/${MODEL.modelID}`;
  const config = {
    model,
    small_model: model,
    autoupdate: false,
    share: 'disabled',
    provider: { anthropic: { options: { baseURL: `${url}/v1`, apiKey: 'scripted' } } },
    mcp,
  };
  writeFileSync(join(place, 'project', 'opencode.json'), JSON.stringify(config));
}

function chat(place, url, prompt) {
  const env = { WORKRAIL_DATA_DIR: join(place, 'data') };
  configure(place, url, { workrail: { type: 'local', enabled: true, command: [program, 'mcp'], environment: env } });
  return run(opencode, ['run', prompt], place, { ...OFFLINE, ...env });
}

/// `opencode run` ends with the turn, so a later prompt has no program to run in. Here a server stays until nothing
/// has happened for a while.
const QUIET_MS = 2500;
const CHAT_MS_MAX = 120_000;

async function whileServing(place, env, use) {
  const child = spawn(opencode, ['serve', '--port', '0'], {
    cwd: join(place, 'project'),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: join(place, 'home'), ...OFFLINE, ...env },
  });
  let said = '';
  const late = setTimeout(() => child.kill('SIGKILL'), CHAT_MS_MAX);
  const ended = new Promise((resolve) => child.once('close', resolve));
  try {
    const address = new Promise((resolve, reject) => {
      const read = (piece) => {
        said += piece;
        const found = said.match(/listening on (http:\S+)/);
        if (found) resolve(found[1]);
      };
      for (const stream of [child.stdout, child.stderr]) stream.on('data', read);
      child.once('error', reject);
      child.once('close', () => reject(new Error(`opencode ended: ${said}`)));
    });
    await use(await address);
  } finally {
    clearTimeout(late);
    child.kill('SIGKILL');
    await ended;
  }
}

/// Resolves when the server has reported nothing for a while.
async function quiet(address, busy) {
  let last = Date.now();
  const listening = new AbortController();
  const events = await fetch(`${address}/event`, { signal: listening.signal });
  const reading = (async () => {
    for await (const piece of events.body) if (!/"server\.(connected|heartbeat)"/.test(new TextDecoder().decode(piece))) last = Date.now();
  })().catch(() => {});
  await busy();
  while (Date.now() - last < QUIET_MS) await new Promise((resolve) => setTimeout(resolve, 100));
  listening.abort();
  await reading;
}

async function post(url, body) {
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
}

let session;

const rails = {
  compacts: true,
  compactMoves: [{ text: 'I only look.' }],
  install: (place) => installIn(place, 'opencode'),
  async chat(place, url, prompt, kind) {
    configure(place, url, {});
    await whileServing(place, variables(place), async (address) => {
      if (kind === 'new') session = (await post(`${address}/session`, {})).id;
      await quiet(address, async () => {
        if (kind === 'compact') await post(`${address}/session/${session}/summarize`, MODEL);
        await post(`${address}/session/${session}/message`, { parts: [{ type: 'text', text: prompt }] });
      });
    });
  },
  saysExitCodes: true,
  edit: (path, content) => ({ tool: 'write', arguments: { filePath: path, content } }),
  shell: (command) => ({ tool: 'bash', arguments: { command, description: 'A command' } }),
  subagent: (prompt) => [{ tool: 'task', arguments: { description: 'A part of it', prompt, subagent_type: 'general' } }],
};

await judge('opencode', here, messages, chat);
await judgeRails('opencode', here, messages, rails);
