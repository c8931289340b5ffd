// The real Codex, offline, with a scripted model.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { responses } from '../model.mjs';
import { installIn, judgeRails, variables } from '../rails.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const codex = join(here, 'node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex');

const provider = (url) => `model = "scripted"
model_provider = "scripted"
model_auto_compact_token_limit = 100000

[model_providers.scripted]
name = "scripted"
base_url = "${url}/v1"
wire_api = "responses"
`;

/// Settings of our server, besides those in the file.
function ofServer(env) {
  const values = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const set = { default_tools_approval_mode: '"approve"', env: `{ ${values.join(', ')} }` };
  return Object.entries(set).flatMap(([name, value]) => ['-c', `mcp_servers.workrail.${name}=${value}`]);
}

const WITHOUT_QUESTIONS = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];

function chat(place, url, prompt) {
  const home = join(place, 'home', '.codex');
  mkdirSync(home, { recursive: true });
  const server = `[mcp_servers.workrail]\ncommand = ${JSON.stringify(program)}\nargs = ["mcp"]\n`;
  writeFileSync(join(home, 'config.toml'), `${provider(url)}\n${server}`);
  const args = ['exec', ...WITHOUT_QUESTIONS, ...ofServer({ WORKRAIL_DATA_DIR: join(place, 'data') }), prompt];
  return run(codex, args, place, { CODEX_HOME: home });
}

const TOO_MANY_TOKENS = 900_000;

const rails = {
  compacts: true,
  compactMoves: [{ tool: 'exec_command', arguments: { cmd: 'true' }, tokens: TOO_MANY_TOKENS }, { text: 'I only look.' }],
  subagent: (message) => [
    { tool: 'spawn_agent', arguments: { message } },
    (shown) => ({ tool: 'wait_agent', arguments: { targets: [shown.match(/"agent_id":\s*"([^"]+)"/)[1]] } }),
  ],
  install(place) {
    const home = join(place, 'home', '.codex');
    mkdirSync(home);
    installIn(place, 'codex');
    writeFileSync(join(home, 'installed.toml'), readFileSync(join(home, 'config.toml')));
  },
  chat(place, url, prompt, kind) {
    const home = join(place, 'home', '.codex');
    writeFileSync(join(home, 'config.toml'), `${provider(url)}\n${readFileSync(join(home, 'installed.toml'), 'utf8')}`);
    const history = kind === 'new' ? [] : ['resume', '--last'];
    // Without this, entries that the user has not trusted in the program are skipped silently.
    const trusted = '--dangerously-bypass-hook-trust';
    const args = ['exec', ...history, ...WITHOUT_QUESTIONS, ...ofServer(variables(place)), trusted, prompt];
    return run(codex, args, place, { CODEX_HOME: home, ...variables(place) });
  },
  edit: (path, content) => ({
    tool: 'exec_command',
    arguments: { cmd: `apply_patch '*** Begin Patch\n*** Add File: ${path}\n+${content}\n*** End Patch'` },
  }),
  shell: (command) => ({ tool: 'exec_command', arguments: { cmd: command } }),
};

/// Codex first says how long a call took.
const strip = (shown) => shown.replace(/^Wall time: [^\n]*\s+(Output:\s+)?/, '');

await judge('Codex', here, responses, chat, strip);
await judgeRails('Codex', here, responses, rails);
