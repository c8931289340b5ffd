// The real Gemini CLI, offline, with a scripted model.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { generateContent } from '../model.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const gemini = join(here, 'node_modules/@google/gemini-cli/bundle/gemini.js');

function chat(place, url, prompt) {
  // Of a call that failed the model is shown the whole result, with `_meta`.
  const env = { WORKRAIL_DATA_DIR: join(place, 'data'), WORKRAIL_TEXT_IN_DATA: 'false' };
  const workrail = { command: program, args: ['mcp'], env, trust: true };
  const settings = {
    mcpServers: { workrail },
    security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
    general: { disableAutoUpdate: true, disableUpdateNag: true },
    privacy: { usageStatisticsEnabled: false },
  };
  const folder = join(place, 'home', '.gemini');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'settings.json'), JSON.stringify(settings));
  const args = [gemini, '--yolo', '--model', 'gemini-2.5-pro', '--prompt', prompt];
  return run(process.execPath, args, place, { GEMINI_API_KEY: 'scripted', GOOGLE_GEMINI_BASE_URL: url, GEMINI_CLI_TRUST_WORKSPACE: 'true' });
}

/// Gemini CLI marks what comes from a tool, and shows the whole result of a call that failed, as JSON.
function strip(shown) {
  const failed = shown.match(/^MCP tool '\w+' reported tool error .* with response: (\[.*\])$/s);
  if (!failed) return shown.replace(/<\/?untrusted_context>\n?/g, '');
  const [{ functionResponse }] = JSON.parse(failed[1]);
  return functionResponse.response.content.map((item) => item.text).join('\n\n');
}

await judge('Gemini CLI', here, generateContent, chat, strip);
