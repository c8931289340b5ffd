// The real opencode, offline, with a scripted model.

import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { messages } from '../model.mjs';
import { judgeRails, variables } from '../rails.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const opencode = join(here, 'node_modules/opencode-linux-x64/bin/opencode');

function talk(place, url, prompt, env, history) {
  const config = {
    model: 'anthropic/claude-sonnet-4-5',
    small_model: 'anthropic/claude-sonnet-4-5',
    autoupdate: false,
    share: 'disabled',
    provider: { anthropic: { options: { baseURL: `${url}/v1`, apiKey: 'scripted' } } },
    mcp: {
      workrail: {
        type: 'local',
        enabled: true,
        command: [program, 'mcp'],
        environment: env,
      },
    },
  };
  writeFileSync(join(place, 'project', 'opencode.json'), JSON.stringify(config));
  const offline = { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' };
  return run(opencode, ['run', ...history, prompt], place, { ...offline, ...env });
}

const chat = (place, url, prompt) => talk(place, url, prompt, { WORKRAIL_DATA_DIR: join(place, 'data') }, []);

const rails = {
  // `opencode run` ends with the turn: the prompt that would follow it has no program to run in.
  endsWithTurn: true,
  install(place) {
    const plugin = spawnSync(program, ['hook', 'opencode', 'plugin'], { encoding: 'utf8' });
    const folder = join(place, 'project', '.opencode', 'plugin');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'workrail.js'), plugin.stdout);
  },
  chat: (place, url, prompt, kind) => talk(place, url, prompt, variables(place), kind === 'new' ? [] : ['--continue']),
  saysExitCodes: true,
  edit: (path, content) => ({ tool: 'write', arguments: { filePath: path, content } }),
  shell: (command) => ({ tool: 'bash', arguments: { command, description: 'A command' } }),
};

await judge('opencode', here, messages, chat);
await judgeRails('opencode', messages, rails);
