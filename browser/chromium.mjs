// Chromium on a console; collects everything that the browser complains about.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { Home } from './home.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/// Longer than anything takes on a busy machine.
const WAIT_MS = 20_000;

/// Logged when a passkey is made for ES256 alone, which the console does on purpose: it checks no other signatures.
const EXPECTED = /pubKeyCredParams is missing at least one of the default algorithm identifiers/;

/// Runs `use` with a console on a private home that `prepare` fills, and a browser.
export async function withConsole(prepare, use) {
  const home = new Home();
  let browser;
  try {
    const prepared = await prepare(home);
    const opening = await home.console();
    browser = await chromium.launch({ executablePath: process.env.WORKRAIL_CHROMIUM });
    const first = await browser.newContext();
    const page = await first.newPage();
    await page.goto(opening);
    // The code admits one browser; every further context gets its cookie.
    const storageState = await first.storageState();
    await first.close();
    await use({ home, prepared, visit: visitor(browser, new URL(opening).origin, storageState), opening, browser });
  } finally {
    await browser?.close();
    await home.remove();
  }
}

function visitor(browser, baseURL, storageState) {
  /// Runs `use(page, context)` in a fresh, admitted context; fails on anything that the browser complains about.
  return async (options, use) => {
    const context = await browser.newContext({ baseURL, storageState, ...options });
    context.setDefaultTimeout(WAIT_MS);
    const complaints = [];
    context.on('console', (message) => {
      const isComplaint = message.type() === 'error' || message.type() === 'warning';
      if (isComplaint && !EXPECTED.test(message.text())) complaints.push(message.text());
    });
    context.on('weberror', (error) => complaints.push(String(error.error())));
    context.on('response', (response) => {
      if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
    });
    if (options.javaScriptEnabled !== false) {
      await context.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (violation) => {
          console.error(`CSP: ${violation.violatedDirective} ${violation.blockedURI}`);
        });
      });
    }
    try {
      await use(await context.newPage(), context);
    } finally {
      await context.close();
    }
    if (complaints.length > 0) throw new Error(`the browser complains: ${complaints.join('; ')}`);
  };
}

/// Opens a page and waits until it is live, so that any later change arrives without a reload. On pages without live
/// updates, waits until the script has run.
export async function openLive(page, address) {
  await page.goto(address);
  await scriptRuns(page);
}

/// A form that only the script sends does nothing before that.
export async function scriptRuns(page) {
  const isLive = await page.evaluate(() => document.body.dataset.live !== undefined);
  if (isLive) await page.locator('[data-live-state]', { hasText: /^live$/ }).waitFor();
  else await page.locator('[data-keys]:visible').waitFor();
}

/// Serious accessibility problems that axe finds.
export async function seriousViolations(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter((own) => own.impact === 'serious' || own.impact === 'critical');
  return serious.map((own) => `${own.id}: ${own.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' | ')}`);
}
