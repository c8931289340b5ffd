// The real Codex, offline, with a scripted model.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { responses } from '../model.mjs';
import { judgeRails, variables } from '../rails.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const codex = join(here, 'node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex');

function configure(place, url, env) {
  const home = join(place, 'home', '.codex');
  mkdirSync(home, { recursive: true });
  const values = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  writeFileSync(
    join(home, 'config.toml'),
    `model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "${url}/v1"
wire_api = "responses"

[mcp_servers.workrail]
command = ${JSON.stringify(program)}
args = ["mcp"]
default_tools_approval_mode = "approve"

[mcp_servers.workrail.env]
${values.join('\n')}
`,
  );
  return home;
}

const WITHOUT_QUESTIONS = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];

function chat(place, url, prompt) {
  const home = configure(place, url, { WORKRAIL_DATA_DIR: join(place, 'data') });
  return run(codex, ['exec', ...WITHOUT_QUESTIONS, prompt], place, { CODEX_HOME: home });
}

const EVENTS = ['SessionStart', 'PreToolUse', 'PostToolUse', 'Stop', 'SubagentStart', 'SubagentStop'];

const rails = {
  install(place) {
    const entry = (event) => [{ hooks: [{ type: 'command', command: `${program} hook codex ${event}` }] }];
    mkdirSync(join(place, 'home', '.codex'));
    const hooks = Object.fromEntries(EVENTS.map((event) => [event, entry(event)]));
    writeFileSync(join(place, 'home', '.codex', 'hooks.json'), JSON.stringify({ hooks }));
  },
  chat(place, url, prompt, kind) {
    const home = configure(place, url, variables(place));
    const history = kind === 'new' ? [] : ['resume', '--last'];
    // Without this, entries that nobody has trusted in the program are skipped without a word.
    const trusted = '--dangerously-bypass-hook-trust';
    const args = ['exec', ...history, ...WITHOUT_QUESTIONS, trusted, prompt];
    return run(codex, args, place, { CODEX_HOME: home, ...variables(place) });
  },
  shell: (command) => ({ tool: 'exec_command', arguments: { cmd: command } }),
};

/// Codex says first how long a call took.
const strip = (shown) => shown.replace(/^Wall time: [^\n]*\s+(Output:\s+)?/, '');

await judge('Codex', here, responses, chat, strip);
await judgeRails('Codex', responses, rails);
