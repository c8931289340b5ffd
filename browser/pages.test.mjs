// Every page loads without complaints, in both themes and widths, accessibly, with and without script.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLive, seriousViolations, withConsole } from './chromium.mjs';
import { busyDay } from './sessions.mjs';

const WIDTHS = { 1280: 800, 390: 844 };
const THEMES = ['light', 'dark'];
const SCRIPT_BYTES_MAX = 60 * 1024;

/// Parts of the page that extend beyond the right edge of the window.
function overflowing() {
  const { clientWidth, scrollWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const wide = [...document.querySelectorAll('body *')].filter((own) => own.getBoundingClientRect().right > clientWidth + 1);
  return wide.slice(0, 5).map((own) => own.outerHTML.slice(0, 120));
}

test('every page', async (t) => {
  await withConsole(busyDay, async ({ prepared: { pages }, visit }) => {
    for (const colorScheme of THEMES) {
      for (const [width, height] of Object.entries(WIDTHS)) {
        for (const [name, address] of Object.entries(pages)) {
          await t.test(`${name}, ${colorScheme}, ${width} px`, async () => {
            await visit({ colorScheme, viewport: { width: Number(width), height } }, async (page) => {
              await openLive(page, address);
              const path = join(process.env.WORKRAIL_SCREENSHOTS, `${name}-${colorScheme}-${width}.png`);
              await page.screenshot({ path, fullPage: true });
              assert.deepEqual(await page.evaluate(overflowing), [], 'scrolls sideways');
              assert.deepEqual(await seriousViolations(page), [], 'axe');
            });
          });
        }
      }
    }

    for (const [name, address] of Object.entries(pages)) {
      await t.test(`${name}, without script`, async () => {
        await visit({ javaScriptEnabled: false }, async (page) => {
          await page.goto(address);
          await page.locator('main > section').first().waitFor();
          assert.notEqual((await page.locator('main').innerText()).trim(), '');
          // Controls that need the script are not offered.
          for (const own of await page.locator('[data-copy], [data-with-script]').all()) assert.ok(!(await own.isVisible()));
        });
      });
    }

    await t.test('pages that refuse', async () => {
      for (const [address, options] of [['/nothing', {}], ['/', { storageState: undefined }]]) {
        const complaint = visit(options, async (page) => {
          await page.goto(address);
          assert.deepEqual(await seriousViolations(page), [], 'axe');
        });
        await assert.rejects(complaint, /^Error: the browser complains: .*40[14]/);
      }
    });

    await t.test('a page that breaks its policy would be noticed', async () => {
      const complaint = visit({}, async (page) => {
        await openLive(page, '/');
        await page.evaluate(() => { document.body.append(Object.assign(document.createElement('script'), { text: '1' })); });
      });
      await assert.rejects(complaint, /script-src/);
    });

    await t.test('all script is under 60 KB', async () => {
      const scripts = new Map();
      await visit({}, async (page) => {
        page.on('response', async (response) => {
          if (response.request().resourceType() === 'script') scripts.set(response.url(), response.body());
        });
        for (const address of Object.values(pages)) await openLive(page, address);
        const sizes = await Promise.all([...scripts.values()].map(async (body) => (await body).length));
        const bytes = sizes.reduce((sum, size) => sum + size, 0);
        t.diagnostic(`${sizes.length} scripts, ${bytes} bytes`);
        assert.ok(bytes > 0 && bytes < SCRIPT_BYTES_MAX, `${bytes} bytes`);
      });
    });
  });
});
