// Files out and in: export, reports, keep, delete, import.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLive, scriptRuns, withConsole } from './chromium.mjs';
import { completes, defineWorkflows } from './sessions.mjs';

async function download(page, name) {
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name, exact: true }).click(),
  ]);
  return { name: file.suggestedFilename(), text: readFileSync(await file.path(), 'utf8') };
}

async function prepare(home) {
  defineWorkflows(home);
  const client = await home.client();
  return completes(client, 'wr.small_change', 'Take me along');
}

test('files', async (t) => {
  await withConsole(prepare, async ({ home, prepared: { run: { sessionId, runId } }, visit }) => {
    const bundle = join(home.root, 'bundle.json');

    await t.test('export and reports are downloaded', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/session/${sessionId}`);
        const exported = await download(page, 'Export');
        assert.equal(exported.name, `${sessionId}.bundle.json`);
        assert.ok(JSON.parse(exported.text).bundleId);
        writeFileSync(bundle, exported.text);
        assert.match((await download(page, 'Report (HTML)')).text, /Take me along/);
        assert.match((await download(page, 'Markdown')).text, /Take me along/);
        assert.match(JSON.parse((await download(page, 'JSON')).text).runs[0].goal, /Take me along/);
      });
    });

    await t.test('keep and keep no longer', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/session/${sessionId}`);
        await page.getByRole('button', { name: 'Keep', exact: true }).click();
        await page.locator('.said', { hasText: 'Kept.' }).waitFor();
        await page.getByRole('button', { name: 'Stop keeping' }).click();
        await page.locator('.said', { hasText: 'No longer kept.' }).waitFor();
      });
    });

    await t.test('delete and undo', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/session/${sessionId}`);
        await page.getByRole('button', { name: 'Delete', exact: true }).click();
        await page.locator('.said', { hasText: 'will be deleted' }).waitFor();
        assert.equal(await page.locator(`tr a[href="/run/${runId}"]`).count(), 0, 'it is no longer listed');
        await page.getByRole('button', { name: 'Undo' }).click();
        await page.locator('.said', { hasText: 'Undone.' }).waitFor();
        await page.locator(`tr a[href="/run/${runId}"]`).waitFor();
      });
    });

    await t.test('delete, then import', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/session/${sessionId}`);
        await page.locator('summary', { hasText: 'Delete at once' }).click();
        await page.getByLabel("Type the session's id or a run's label").fill(sessionId);
        await page.getByRole('button', { name: 'Delete for good' }).click();
        await page.locator('.said', { hasText: 'Deleted.' }).waitFor();
        await scriptRuns(page);
        assert.equal(await page.locator(`a[href="/run/${runId}"]`).count(), 0);
        await page.getByLabel('An exported bundle').setInputFiles(bundle);
        await page.waitForURL(`**/session/${sessionId}?done=imported`);
        await page.locator('.said', { hasText: 'Imported.' }).waitFor();
        await page.locator(`a[href="/run/${runId}"]`).first().waitFor();
      });
    });

    await t.test('a file that is no bundle is refused on the page', async () => {
      const other = join(home.root, 'other.json');
      writeFileSync(other, '{}');
      // Chromium itself reports the refused request.
      const complaint = visit({}, async (page) => {
        await openLive(page, '/');
        await page.getByLabel('An exported bundle').setInputFiles(other);
        // Until there is an answer, it says that it is importing.
        await page.locator('[data-import-said]', { hasText: /^(?!Importing)\w/ }).waitFor();
        assert.equal(new URL(page.url()).pathname, '/');
      });
      await assert.rejects(complaint, /409 .*\/import/);
    });
  });
});
