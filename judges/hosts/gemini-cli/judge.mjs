// The real Gemini CLI, offline, with a scripted model.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { generateContent } from '../model.mjs';
import { hookProgram, judgeRails, variables } from '../rails.mjs';
import { judgePlugin } from '../plugin.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const gemini = join(here, 'node_modules/@google/gemini-cli/bundle/gemini.js');

function configure(place, env, more) {
  // For a failed call the model is shown the whole result, including `_meta`.
  const workrail = { command: program, args: ['mcp'], env: { ...env, WORKRAIL_TEXT_IN_DATA: 'false' }, trust: true };
  const settings = {
    mcpServers: { workrail },
    security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
    general: { disableAutoUpdate: true, disableUpdateNag: true },
    privacy: { usageStatisticsEnabled: false },
    ...more,
  };
  const folder = join(place, 'home', '.gemini');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'settings.json'), JSON.stringify(settings));
}

function talk(place, url, prompt, history) {
  const args = [gemini, '--yolo', '--model', 'gemini-2.5-pro', ...history, '--prompt', prompt];
  return run(process.execPath, args, place, { GEMINI_API_KEY: 'scripted', GOOGLE_GEMINI_BASE_URL: url, GEMINI_CLI_TRUST_WORKSPACE: 'true' });
}

function chat(place, url, prompt) {
  configure(place, { WORKRAIL_DATA_DIR: join(place, 'data') }, {});
  return talk(place, url, prompt, []);
}

const EVENTS = ['SessionStart', 'BeforeAgent', 'BeforeTool', 'AfterTool', 'PreCompress', 'AfterAgent'];

const rails = {
  install(place) {
    // The host passes hooks only part of the environment.
    const set = Object.entries(variables(place)).map(([name, value]) => `${name}=${value}`).join(' ');
    const entry = (event) => [{ hooks: [{ type: 'command', name: event, command: `env ${set} ${hookProgram(place)} hook gemini ${event}` }] }];
    configure(place, variables(place), { hooks: Object.fromEntries(EVENTS.map((event) => [event, entry(event)])) });
  },
  chat: (place, url, prompt, kind) => talk(place, url, prompt, kind === 'new' ? [] : ['--resume', 'latest']),
  saysExitCodes: true,
  edit: (path, content) => ({ tool: 'write_file', arguments: { file_path: path, content } }),
  shell: (command) => ({ tool: 'run_shell_command', arguments: { command, description: 'A command' } }),
};

/// Gemini CLI marks tool output, and shows the whole result of a failed call, as JSON.
function strip(shown) {
  const failed = shown.match(/^MCP tool '\w+' reported tool error .* with response: (\[.*\])$/s);
  if (!failed) return shown.replace(/<\/?untrusted_context>\n?/g, '');
  const [{ functionResponse }] = JSON.parse(failed[1]);
  return functionResponse.response.content.map((item) => item.text).join('\n\n');
}

await judge('Gemini CLI', here, generateContent, chat, strip);
await judgeRails('Gemini CLI', here, generateContent, rails);
judgePlugin('Gemini CLI', 'gemini', (folder, options) =>
  execFileSync(process.execPath, [gemini, 'extensions', 'validate', folder], options),
);
