// The real Claude Code, offline, with a scripted model.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { messages } from '../model.mjs';
import { installIn, judgeRails, variables } from '../rails.mjs';
import { judgePlugin } from '../plugin.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const claude = join(here, 'node_modules/@anthropic-ai/claude-code-linux-x64/claude');

const offline = (url) => ({
  ANTHROPIC_BASE_URL: url,
  ANTHROPIC_API_KEY: 'scripted',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  // All tools at once; otherwise the model would have to search for them first.
  ENABLE_TOOL_SEARCH: 'false',
});

function chat(place, url, prompt) {
  const workrail = { command: program, args: ['mcp'], env: { WORKRAIL_DATA_DIR: join(place, 'data') } };
  const servers = join(place, 'mcp.json');
  writeFileSync(servers, JSON.stringify({ mcpServers: { workrail } }));
  const server = ['--mcp-config', servers, '--strict-mcp-config', '--allowedTools', 'mcp__workrail'];
  return run(claude, ['-p', prompt, ...server], place, offline(url));
}

const rails = {
  compacts: true,
  saysExitCodes: true,
  install: (place) => installIn(place, 'claude-code'),
  chat(place, url, prompt, kind) {
    const tools = ['mcp__workrail', 'Bash', 'Write', 'Agent'].join(',');
    const history = kind === 'new' ? [] : ['--continue'];
    return run(claude, ['-p', prompt, ...history, '--allowedTools', tools], place, { ...offline(url), ...variables(place) });
  },
  shell: (command) => ({ tool: 'Bash', arguments: { command, description: 'A command' } }),
  edit: (path, content) => ({ tool: 'Write', arguments: { file_path: path, content } }),
  subagent: (prompt) => [
    {
      tool: 'Agent',
      arguments: { description: 'A part of it', prompt, subagent_type: 'general-purpose', run_in_background: false },
    },
  ],
};

await judge('Claude Code', here, messages, chat);
await judgeRails('Claude Code', here, messages, rails);
judgePlugin('Claude Code', 'claude-code', (folder, options) => execFileSync(claude, ['plugin', 'validate', folder], options));
