// The real Codex, offline, with a scripted model.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { responses } from '../model.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const codex = join(here, 'node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex');

function chat(place, url, prompt) {
  const home = join(place, 'home', '.codex');
  mkdirSync(home, { recursive: true });
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
WORKRAIL_DATA_DIR = ${JSON.stringify(join(place, 'data'))}
`,
  );
  const args = ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', prompt];
  return run(codex, args, place, { CODEX_HOME: home });
}

/// Codex says first how long a call took.
const strip = (shown) => shown.replace(/^Wall time: [^\n]*\s+(Output:\s+)?/, '');

await judge('Codex', here, responses, chat, strip);
