// Starts the servers under test on loopback, each with its own data directory.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const program = process.env.WORKRAIL_PROGRAM;

export async function withDataDirectory(use) {
  const data = mkdtempSync(join(tmpdir(), 'workrail-judge-'));
  try {
    return await use(data);
  } finally {
    rmSync(data, { recursive: true });
  }
}

/// Runs `use(url)` while the command serves; its first line on stderr says where it listens.
export async function whileServing(command, args, data, use) {
  const child = spawn(command, args, {
    env: { PATH: process.env.PATH, WORKRAIL_DATA_DIR: data, WORKRAIL_LOG: 'error' },
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  const ended = new Promise((resolve) => child.once('close', (code) => resolve(code)));
  const url = await new Promise((resolve, reject) => {
    ended.then((code) => reject(new Error(`${command} ended with ${code} before it listened`)));
    createInterface({ input: child.stderr }).on('line', (line) => {
      const url = line.match(/^listening on (http:\/\/\S+)$/)?.[1];
      if (url) resolve(url);
      else console.error(line);
    });
  });
  try {
    return await use(url);
  } finally {
    child.kill('SIGTERM');
    const code = await ended;
    if (code !== 0) throw new Error(`${command} ended with ${code} on SIGTERM`);
  }
}

/// The version of an installed package.
export function versionOf(name) {
  const packages = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
  return JSON.parse(readFileSync(join(packages, name, 'package.json'), 'utf8')).version;
}

/// Prints the result of one judge and remembers a failure for the exit code.
export function verdict(judge, passed, failures, note = '') {
  console.log(`${judge}: ${passed} passed, ${failures.length} failed${note}`);
  for (const failure of failures) console.log(`  ${failure}`);
  if (failures.length > 0) process.exitCode = 1;
}
