// The console's modules match their JSDoc types: checked by the TypeScript compiler, which writes nothing.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const compiler = fileURLToPath(import.meta.resolve('typescript/bin/tsc'));
const assets = process.env.WORKRAIL_ASSETS;
const options = [
  '--noEmit', '--allowJs', '--checkJs', '--strict', '--target', 'es2022', '--module', 'es2022',
  '--lib', 'es2022,dom,dom.iterable',
];

/// The compiler's messages; empty if every type fits.
function complaints(files) {
  const { stdout, stderr, error } = spawnSync(process.execPath, [compiler, ...options, ...files], { encoding: 'utf8' });
  assert.ifError(error);
  return `${stdout}${stderr}`;
}

test('every module of the console has the types that it declares', () => {
  const modules = readdirSync(assets).filter((name) => name.endsWith('.js')).map((name) => join(assets, name));
  assert.ok(modules.length > 5, `${modules}`);
  assert.equal(complaints(modules), '');
});

test('a wrong type is found', () => {
  const folder = mkdtempSync(join(tmpdir(), 'workrail-types-'));
  try {
    const file = join(folder, 'wrong.js');
    writeFileSync(file, '/** @param {HTMLElement} box */\nexport const hide = (box) => { box.hidden = 1; };\nhide(null);\n');
    const found = complaints([file]);
    assert.match(found, /'number' is not assignable/);
    assert.match(found, /'null' is not assignable/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
