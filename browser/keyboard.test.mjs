// Uses everything with only the keyboard.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openLive, withConsole } from './chromium.mjs';
import { defineWorkflows, waitsForApproval } from './sessions.mjs';

async function prepare(home) {
  defineWorkflows(home);
  const client = await home.client();
  const oldest = await waitsForApproval(client, 'The first');
  await waitsForApproval(client, 'The second');
  return oldest;
}

test('keyboard', async (t) => {
  await withConsole(prepare, async ({ prepared: oldest, visit }) => {
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

    await t.test('the help is offered without knowing the key, and single keys can be switched off', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        const help = page.getByRole('dialog', { name: 'Keys' });
        await page.getByRole('button', { name: '? Keys' }).click();
        await help.getByLabel('Single keys act').uncheck();
        await page.keyboard.press('Escape');
        await page.keyboard.press('?');
        assert.ok(!(await help.isVisible()), 'the key does nothing');
        await openLive(page, `/run/${oldest.run.runId}`);
        const width = () => page.locator('svg[data-pan]').evaluate((own) => own.width.baseVal.value);
        const usual = await width();
        for (const key of ['+', '=', '-']) {
          await page.keyboard.press(key);
          assert.equal(await width(), usual, `${key} does nothing`);
        }
        await page.locator('[data-zoom="in"]').click();
        const larger = await width();
        assert.ok(larger > usual, 'the button zooms');
        await page.keyboard.press('0');
        assert.equal(await width(), larger, '0 does nothing');
        await page.getByRole('button', { name: '? Keys' }).click();
        await help.getByLabel('Single keys act').check();
      });
    });

    await t.test('the path of a run is zoomed and moved', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/run/${oldest.run.runId}`);
        const width = () => page.locator('svg[data-pan]').evaluate((own) => own.width.baseVal.value);
        const usual = await width();
        await page.keyboard.press('+');
        assert.ok(await width() > usual, 'larger');
        await page.keyboard.press('0');
        assert.equal(await width(), usual);
        await page.keyboard.press('-');
        assert.ok(await width() < usual, 'smaller');
        const box = page.locator('.path');
        for (let press = 0; press < 9; press += 1) await page.keyboard.press('+');
        const before = await box.evaluate((own) => { own.scrollLeft = 50; return own.scrollLeft; });
        await box.hover({ position: { x: 150, y: 20 } });
        await page.mouse.down();
        await page.mouse.move(400, 400, { steps: 4 });
        await page.mouse.up();
        assert.notEqual(await box.evaluate((own) => own.scrollLeft), before, 'dragging moves it');
        assert.match(page.url(), /\/run\//, 'a drag is no click');
      });
    });

    await t.test('a drag that ends outside of the path does not swallow the next click', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/run/${oldest.run.runId}`);
        const box = page.locator('.path');
        await box.scrollIntoViewIfNeeded();
        const { x, y } = await box.boundingBox();
        await page.mouse.move(x + 20, y + 20);
        await page.mouse.down();
        await page.mouse.move(x + 60, y - 30, { steps: 4 });
        await page.mouse.up();
        const before = page.url();
        await box.locator('a').first().click();
        await page.waitForURL((url) => url.href !== before);
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
        await page.waitForURL(`**/run/${oldest.run.runId}`);
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
