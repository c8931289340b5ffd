// A report as one HTML file, opened in a narrow window: as on a phone, or next to an editor.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { Home } from './home.mjs';
import { defineWorkflows, twoBranches, wideText } from './sessions.mjs';

const NARROW = { width: 500, height: 900 };

/// Writes the report of a run and opens it; `use(page)` inspects it.
async function withReport(begin, use) {
  const home = new Home();
  let browser;
  try {
    defineWorkflows(home);
    const { run } = await begin(await home.client());
    const file = join(home.root, 'report.html');
    const written = home.start(['report', run.label, '--format', 'html', '-o', file], ['ignore', 'pipe', 'inherit']);
    assert.equal(await written.ended, 0);
    browser = await chromium.launch({ executablePath: process.env.WORKRAIL_CHROMIUM });
    const page = await browser.newPage({ viewport: NARROW });
    await page.goto(pathToFileURL(file).href);
    await page.screenshot({ path: join(process.env.WORKRAIL_SCREENSHOTS, `report-${run.label}.png`), fullPage: true });
    await use(page, run);
  } finally {
    await browser?.close();
    await home.remove();
  }
}

/// Only a box that scrolls on its own may hold anything wider than the window.
async function assertNoSidewaysScrolling(page) {
  const wide = await page.evaluate(() => {
    const root = document.documentElement;
    const isBoxed = (own) => own.closest('.scroll, pre, .notes table') !== null;
    const over = [...document.querySelectorAll('body *')].filter((own) => !isBoxed(own) && own.getBoundingClientRect().right > root.clientWidth + 1);
    return { page: root.scrollWidth - root.clientWidth, over: over.map((own) => `${own.tagName} ${own.className}`) };
  });
  assert.deepEqual(wide, { page: 0, over: [] });
}

test('a narrow window shows every branch without scrolling sideways', async () => {
  await withReport((client) => twoBranches(client, 'Try two designs of the limiter'), async (page) => {
    await assertNoSidewaysScrolling(page);
    const table = page.locator('h3', { hasText: 'Branches' }).locator('xpath=following-sibling::*[1]').locator('table');
    const cells = await table.locator('tbody td').evaluateAll((own) => own.filter((cell) => cell.textContent !== '').map((cell) => {
      const { left, right, width } = cell.getBoundingClientRect();
      const named = getComputedStyle(cell, '::before').content;
      return { text: cell.textContent, inside: left >= 0 && right <= innerWidth, width, named, size: parseFloat(getComputedStyle(cell).fontSize) };
    }));
    assert.ok(cells.length >= 8, JSON.stringify(cells));
    for (const cell of cells) {
      assert.ok(cell.inside && cell.width > 300, `a cell has the whole width: ${JSON.stringify(cell)}`);
      assert.ok(cell.size >= 13, `it can be read: ${JSON.stringify(cell)}`);
      assert.match(cell.named, /^"[a-z ]+"$/, 'it says which column it is of');
    }
    assert.deepEqual(cells.filter((cell) => /^[ab]( \(current\))?$/.test(cell.text)).map((cell) => cell.text), ['a (current)', 'b']);
  });
});

test('links stay whole and lead to their points', async () => {
  await withReport((client) => twoBranches(client, 'Try two designs of the limiter'), async (page) => {
    const links = page.locator('main a:not(.graph a)');
    const found = await links.evaluateAll((own) => own.map((link) => ({
      text: link.textContent, lines: link.getClientRects().length,
      leads: document.querySelector(link.getAttribute('href')) !== null,
    })));
    assert.ok(found.length > 3, JSON.stringify(found));
    for (const link of found) {
      assert.equal(link.lines, 1, `one line: ${JSON.stringify(link)}`);
      assert.ok(link.leads, JSON.stringify(link));
    }
    // An address may take two lines, but is copied unchanged.
    const copied = await page.locator('.node .meta code', { hasText: 'workrail://' }).evaluateAll((own) => own.map((code) => {
      getSelection().selectAllChildren(code);
      return { copied: getSelection().toString(), written: code.textContent, inside: code.getBoundingClientRect().right <= innerWidth };
    }));
    assert.ok(copied.length > 2);
    for (const address of copied) {
      assert.equal(address.copied, address.written);
      assert.ok(address.inside, JSON.stringify(address));
    }
  });
});

test('text without a place to break stays inside the window', async () => {
  await withReport((client) => wideText(client), async (page) => assertNoSidewaysScrolling(page));
});
