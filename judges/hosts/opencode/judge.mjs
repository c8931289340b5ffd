// The real opencode, offline, with a scripted model.

import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { messages } from '../model.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const opencode = join(here, 'node_modules/opencode-linux-x64/bin/opencode');

function chat(place, url, prompt) {
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
        environment: { WORKRAIL_DATA_DIR: join(place, 'data') },
      },
    },
  };
  writeFileSync(join(place, 'project', 'opencode.json'), JSON.stringify(config));
  return run(opencode, ['run', prompt], place, { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' });
}

await judge('opencode', here, messages, chat);
