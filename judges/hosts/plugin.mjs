// Renders the plugin for a host and runs the host's own validator on it.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { program } from './agent.mjs';

/// `validate(folder, options)` runs the validator and throws if it fails.
export function judgePlugin(name, format, validate) {
  const place = mkdtempSync(join(tmpdir(), 'workrail-plugin-'));
  const folder = join(place, 'workrail');
  const options = { cwd: place, encoding: 'utf8', timeout: 120_000, env: { PATH: process.env.PATH, HOME: place } };
  try {
    execFileSync(program, ['plugin', 'render', format, folder], options);
    validate(folder, options);
    console.log(`${name}: the plugin is valid`);
  } catch (error) {
    console.error(`${name}: the plugin is refused: ${error.stdout ?? ''}${error.stderr ?? ''}${error.message}`);
    process.exitCode = 1;
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
