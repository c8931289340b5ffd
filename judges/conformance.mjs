// The MCP conformance suite over HTTP, both requirement sets, against our transports with the suite's own fixtures,
// and against the server as shipped. It also validates every message against the protocol's JSON Schema.
//
// Expected failures are listed in expected/, check by check. Any other failure is an error, and so is a listed check
// that passes or no longer exists: the lists are exact. WORKRAIL_JUDGES_RECORD=1 rewrites them; read the difference
// before you commit it.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { program, verdict, whileServing, withDataDirectory } from './server.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance');
const revisions = ['2025-11-25', '2026-07-28'];

const servers = [
  { name: 'fixtures', command: process.env.WORKRAIL_FIXTURES, args: ['127.0.0.1:0'] },
  { name: 'shipped', command: program, args: ['mcp', '--http', '127.0.0.1:0', '--no-auth'] },
];

/// Extensions are optional in the protocol; WorkRail has none.
function extensions(revision) {
  const requirements = parse(readFileSync(join(suite, 'requirements', `${revision}.yaml`), 'utf8'));
  const optional = (requirements.not_scored ?? []).filter((entry) => entry.reason === 'extension');
  return new Set(optional.map((entry) => entry.scenario));
}

function judge(url, revision) {
  const results = join(here, 'results');
  rmSync(results, { recursive: true, force: true });
  mkdirSync(results);
  const run = spawnSync(
    process.execPath,
    [join(suite, 'dist/index.js'), 'server', '--url', url, '--requirements', revision, '-o', results],
    { encoding: 'utf8', maxBuffer: 1 << 28 },
  );
  const folders = readdirSync(results);
  if (folders.length === 0) throw new Error(`the suite did not run:\n${run.stdout}\n${run.stderr}`);
  const skipped = extensions(revision);
  const checks = new Map();
  for (const folder of folders) {
    const scenario = folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    if (skipped.has(scenario)) continue;
    for (const check of JSON.parse(readFileSync(join(results, folder, 'checks.json'), 'utf8'))) {
      const id = `${scenario} ${check.id}`;
      const seen = checks.get(id) ?? { good: 0, bad: [] };
      if (check.status === 'SUCCESS') seen.good += 1;
      if (check.status === 'FAILURE' || check.status === 'WARNING') {
        seen.bad.push(check.errorMessage ?? check.description);
      }
      checks.set(id, seen);
    }
  }
  return checks;
}

/// `scenario check`, one per line; `#` begins a comment.
function expected(file) {
  const lines = readFileSync(file, 'utf8').split('\n');
  return new Set(lines.map((line) => line.replace(/#.*/, '').trim()).filter((line) => line !== ''));
}

for (const { name, command, args } of servers) {
  for (const revision of revisions) {
    const file = join(process.env.WORKRAIL_EXPECTED, `${name}-${revision}.txt`);
    const checks = await withDataDirectory((data) =>
      whileServing(command, args, data, async (url) => judge(url, revision)),
    );
    if (process.env.WORKRAIL_JUDGES_RECORD) {
      const bad = [...checks].filter(([, seen]) => seen.bad.length > 0).map(([id]) => id);
      const reasons = readFileSync(file, 'utf8').split('\n').filter((line) => line.startsWith('#'));
      writeFileSync(file, [...reasons, ...bad.sort()].map((line) => `${line}\n`).join(''));
    }
    const known = expected(file);
    const failures = [];
    let passed = 0;
    let absent = 0;
    for (const [id, { good, bad }] of checks) {
      passed += good;
      if (bad.length > 0 && known.has(id)) absent += 1;
      if (bad.length > 0 && !known.has(id)) failures.push(`${id}: ${bad[0]}`);
    }
    for (const id of known) {
      if (!(checks.get(id)?.bad.length > 0)) failures.push(`${id}: expected to fail, and did not; take it off the list`);
    }
    const note = absent > 0 ? `, ${absent} as expected for what the server does not have` : '';
    verdict(`conformance ${revision}, ${name} server`, passed, failures, note);
  }
}
