// The MCP Inspector over stdio and HTTP, in both eras: lists the tools and checks their schemas strictly, calls one,
// calls it many times at once, and takes the walk. Each of its calls is a separate process.

import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { program, verdict, versionOf, whileServing, withDataDirectory } from './server.mjs';
import { Cells, blocks, expect, walk } from './walk.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const launcher = join(here, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
const calling = (tool, args) => ['--method', 'tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args)];
const call = calling('start_workflow', { workflowId: 'wr.small_change', goal: 'load the server' });

/// The exit code after an error result, which is printed all the same.
const TOOL_ERROR = 5;

function inspect(target, args, ...alsoGood) {
  const run = spawnSync(process.execPath, [launcher, '--cli', ...target, ...args, '--format', 'json'], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (run.status !== 0 && !alsoGood.includes(run.status)) throw new Error(`exit ${run.status}: ${run.stderr}${run.stdout}`);
  return JSON.parse(run.stdout);
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

/// Lists the tools and calls them, each in its own process.
async function opened(target) {
  const { tools } = unwrapped(inspect(target, ['--method', 'tools/list']));
  return {
    names: tools.map((tool) => tool.name),
    call: async (tool, args) => blocks(unwrapped(inspect(target, calling(tool, args), TOOL_ERROR))),
    close: () => {},
  };
}

/// The result itself, without the format's envelope.
function unwrapped(output) {
  return output.result ?? output;
}

/// Each call takes most of a second, so only one transport and one era are walked.
const walking = (target) => walk(new Cells('Inspector', versionOf('@modelcontextprotocol/inspector')), () => opened(target));

for (const era of ['legacy', 'modern']) {
  for (const transport of ['stdio', 'http']) {
    const failures = [];
    let passed = 0;
    const all = async (target) => {
      const own = transport === 'stdio' && era === 'modern' ? { ...tests, 'the walk': walking } : tests;
      for (const [name, test] of Object.entries(own)) {
        try {
          await test([...target, '--protocol-era', era]);
          passed += 1;
        } catch (error) {
          failures.push(`${name}: ${error.message}`);
        }
      }
    };
    await withDataDirectory(async (data) => {
      if (transport === 'stdio') await all(['-e', `WORKRAIL_DATA_DIR=${data}`, program, 'mcp']);
      else await whileServing(program, ['mcp', '--http', '127.0.0.1:0', '--no-auth'], data, async (url) => all(['--server-url', url, '--transport', 'http']));
    });
    verdict(`inspector, ${transport}, ${era} era`, passed, failures);
  }
}
