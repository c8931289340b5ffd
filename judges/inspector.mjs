// The MCP Inspector over stdio and HTTP, in both eras: lists the tools and judges their schemas strictly,
// calls one, and calls it many times at once.

import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { program, verdict, whileServing, withDataDirectory } from './server.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const launcher = join(here, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
const call = ['--method', 'tools/call', '--tool-name', 'start_workflow'];
call.push('--tool-args-json', '{"workflowId":"wr.small_change","goal":"be judged"}');

function inspect(target, args) {
  const run = spawnSync(process.execPath, [launcher, '--cli', ...target, ...args, '--format', 'json'], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (run.status !== 0) throw new Error(`exit ${run.status}: ${run.stderr}${run.stdout}`);
  return JSON.parse(run.stdout);
}

function expect(condition, what) {
  if (!condition) throw new Error(what);
}

const tests = {
  'tools/list --strict'(target) {
    const { tools } = unwrapped(inspect(target, ['--method', 'tools/list', '--strict']));
    expect(tools.some((tool) => tool.name === 'start_workflow'), 'start_workflow is not listed');
  },
  'tools/call'(target) {
    const result = unwrapped(inspect(target, call));
    expect(result._meta?.['workrail/reply']?.isComplete === false, `an unexpected answer: ${JSON.stringify(result)}`);
  },
  'tools/call --load'(target) {
    const summary = unwrapped(inspect(target, [...call, '--load', '--load-requests', '200', '--load-concurrency', '16']));
    expect(summary.ok === 200, `not every call succeeded: ${JSON.stringify(summary)}`);
  },
};

/// The result itself, whichever envelope the format has.
function unwrapped(output) {
  return output.result ?? output;
}

for (const era of ['legacy', 'modern']) {
  for (const transport of ['stdio', 'http']) {
    const failures = [];
    let passed = 0;
    const all = (target) => {
      for (const [name, test] of Object.entries(tests)) {
        try {
          test([...target, '--protocol-era', era]);
          passed += 1;
        } catch (error) {
          failures.push(`${name}: ${error.message}`);
        }
      }
    };
    await withDataDirectory(async (data) => {
      if (transport === 'stdio') all(['-e', `WORKRAIL_DATA_DIR=${data}`, program, 'mcp']);
      else await whileServing(program, ['mcp', '--http', '127.0.0.1:0', '--no-auth'], data, async (url) => all(['--server-url', url, '--transport', 'http']));
    });
    verdict(`inspector, ${transport}, ${era} era`, passed, failures);
  }
}
