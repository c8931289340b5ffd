// The real Claude Code, offline, with a scripted model.

import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judge, program, run } from '../agent.mjs';
import { messages } from '../model.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const claude = join(here, 'node_modules/@anthropic-ai/claude-code-linux-x64/claude');

function chat(place, url, prompt) {
  const workrail = { command: program, args: ['mcp'], env: { WORKRAIL_DATA_DIR: join(place, 'data') } };
  const servers = join(place, 'mcp.json');
  writeFileSync(servers, JSON.stringify({ mcpServers: { workrail } }));
  const args = ['-p', prompt, '--mcp-config', servers, '--strict-mcp-config', '--allowedTools', 'mcp__workrail'];
  return run(claude, args, place, {
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: 'scripted',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    // All tools at once; otherwise the model would have to look for them first.
    ENABLE_TOOL_SEARCH: 'false',
  });
}

await judge('Claude Code', here, messages, chat);
