// Everything with the keyboard alone.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openLive, withConsole } from './chromium.mjs';
import { defineWorkflows, waitsForApproval } from './sessions.mjs';

async function prepare(home) {
  defineWorkflows(home);
  const client = await home.client();
  await waitsForApproval(client, 'The first');
  return waitsForApproval(client, 'The second');
}

test('keyboard', async (t) => {
  await withConsole(prepare, async ({ prepared: newest, visit }) => {
    await t.test('? shows the keys, Escape hides them', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        const help = page.getByRole('dialog', { name: 'Keys' });
        assert.ok(!(await help.isVisible()));
        await page.keyboard.press('?');
        await help.waitFor();
        await page.keyboard.press('Escape');
        await help.waitFor({ state: 'hidden' });
      });
    });

    await t.test('g and a letter open each page', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        for (const [key, path] of [['w', '/workflows'], ['s', '/settings'], ['l', '/logs'], ['n', '/']]) {
          await page.keyboard.press('g');
          await page.keyboard.press(key);
          await page.waitForURL(`**${path}`);
          await page.locator('[data-live-state]', { hasText: /^live$/ }).waitFor();
        }
      });
    });

    await t.test('/ searches, j and k move, Enter opens', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        await page.keyboard.press('/');
        await page.keyboard.type('?j');
        assert.equal(await page.getByLabel('Search').inputValue(), '?j', 'keys are text in a field');
        await openLive(page, '/');
        for (const key of ['j', 'j', 'k', 'Enter']) await page.keyboard.press(key);
        await page.waitForURL(`**/run/${newest.run.runId}`);
      });
    });

    await t.test('Tab reaches the content first, then the actions, each with a visible focus', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        await page.keyboard.press('Tab');
        assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('href')), '#main');
        const reached = [];
        for (let press = 0; press < 40; press += 1) {
          await page.keyboard.press('Tab');
          const { name, outline } = await page.evaluate(() => ({
            name: document.activeElement?.textContent?.trim() ?? '',
            outline: document.activeElement ? getComputedStyle(document.activeElement).outlineStyle : '',
          }));
          if (name === 'Approve' || name === 'Reject') assert.notEqual(outline, 'none', `${name} shows the focus`);
          reached.push(name);
        }
        assert.ok(reached.includes('Approve') && reached.includes('Reject'), reached.join(', '));
      });
    });
  });
});
