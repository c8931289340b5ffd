// The console of a team in Chromium: logging in with a token, what a role sees, approving with a name and with a passkey,
// and the same over TLS.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { openLive, seriousViolations } from './chromium.mjs';
import { Home } from './home.mjs';

const WAIT_MS = 20_000;
const GATED = {
  id: 'team.gated',
  name: 'Gated release',
  description: 'Release a service; a person approves the plan.',
  version: '1.0.0',
  steps: [
    { id: 'plan', title: 'Plan the release', prompt: 'Plan the release.', requireConfirmation: { kind: 'human_approval' } },
    { id: 'deploy', title: 'Deploy', prompt: 'Deploy what was approved.' },
  ],
};

/// Starts a server; resolves with its address as browsers use it.
async function serve(home, args) {
  const { child, ended } = home.start(['serve', '--listen', '127.0.0.1:0', ...args], ['ignore', 'pipe', 'pipe']);
  return new Promise((resolve, reject) => {
    ended.then((code) => reject(new Error(`the server ended with ${code}`)));
    createInterface({ input: child.stderr }).on('line', (line) => {
      const [, scheme, port] = line.match(/^listening on (https?):\/\/127\.0\.0\.1:(\d+)\/mcp$/) ?? [];
      if (port) resolve(`${scheme}://localhost:${port}`);
    });
  });
}

function run(home, args) {
  return JSON.parse(execFileSync(process.env.WORKRAIL_PROGRAM, args, { env: home.variables, encoding: 'utf8' }));
}

const token = (home, name, role) => run(home, ['team', 'token', 'create', name, '--role', role, '--json']);

async function waits(client, goal) {
  const first = await client.begin(GATED.id, goal);
  return client.next(first, (args) => { args.output = { notesMarkdown: `The plan: ${goal}` }; });
}

function decisions(home, waiting) {
  const { events } = run(home, ['log', waiting.run.runId, '--json']);
  return events.filter((event) => event.kind === 'approval_recorded');
}

async function logIn(page, secret) {
  await page.getByLabel('Access token').fill(secret);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/// Runs `use(page)` in its own browser.
async function visit(browser, baseURL, options, use) {
  const context = await browser.newContext({ baseURL, ...options });
  context.setDefaultTimeout(WAIT_MS);
  try {
    await use(await context.newPage());
  } finally {
    await context.close();
  }
}

async function withTeam(args, use) {
  const home = new Home();
  home.workflow(GATED);
  const browser = await chromium.launch({ executablePath: process.env.WORKRAIL_CHROMIUM });
  try {
    const client = await home.client();
    await use({ home, client, browser, origin: await serve(home, args(home)) });
  } finally {
    await browser.close();
    await home.remove();
  }
}

test('a team', async (t) => {
  await withTeam(() => [], async ({ home, client, browser, origin }) => {
    await t.test('a token logs in, leads to the page that was asked for, and out again', async () => {
      const waiting = await waits(client, 'Raise the retry budget');
      const { token: secret } = token(home, 'ada', 'approver');
      await visit(browser, origin, {}, async (page) => {
        await page.goto(`/run/${waiting.run.runId}`);
        assert.deepEqual(await seriousViolations(page), []);
        await logIn(page, 'tok_wrong');
        await page.getByRole('alert').getByText('This token is not accepted.').waitFor();
        await logIn(page, secret);
        await page.getByText('ada (approver)').waitFor();
        assert.ok(page.url().includes(waiting.run.runId), page.url());
        await page.getByRole('button', { name: /^Approve/ }).first().click();
        await page.locator('.said', { hasText: 'Approved.' }).waitFor();
        await page.getByRole('button', { name: 'Log out' }).click();
        await page.getByLabel('Access token').waitFor();
      });
      const [decided] = decisions(home, waiting);
      assert.deepEqual([decided.actor.name, decided.actor.role, decided.data.channel], ['ada', 'approver', 'console']);
    });

    await t.test('a viewer reads what waits and is offered nothing to decide', async () => {
      const waiting = await waits(client, 'Lower the retry budget');
      const { token: secret } = token(home, 'vera', 'viewer');
      await visit(browser, origin, { viewport: { width: 390, height: 800 } }, async (page) => {
        await page.goto('/login');
        await logIn(page, secret);
        await openLive(page, `/run/${waiting.run.runId}`);
        await page.getByText('The plan: Lower the retry budget').first().waitFor();
        await page.getByText('Your role (viewer) cannot decide.').waitFor();
        assert.equal(await page.getByRole('button', { name: /Approve|Reject|Close/ }).count(), 0);
        const fits = () => document.documentElement.scrollWidth <= document.documentElement.clientWidth;
        assert.ok(await page.evaluate(fits), 'the page fits a narrow screen');
        assert.deepEqual(await seriousViolations(page), []);
      });
      assert.deepEqual(decisions(home, waiting), []);
    });

    await t.test('a page that is open follows the store and ends with its token', async () => {
      const made = token(home, 'otto', 'viewer');
      await visit(browser, origin, {}, async (page) => {
        await page.goto('/login');
        await logIn(page, made.token);
        await openLive(page, '/');
        await waits(client, 'Seen while the page is open');
        await page.getByText('Seen while the page is open').first().waitFor();
        execFileSync(process.env.WORKRAIL_PROGRAM, ['team', 'token', 'revoke', made.id], { env: home.variables });
        await waits(client, 'Not seen any more');
        const ended = 'Your login has ended: reload the page to log in again.';
        await page.locator('[data-live-state]', { hasText: ended }).waitFor();
        assert.equal(await page.getByText('Not seen any more').count(), 0);
        await page.goto('/');
        await page.getByLabel('Access token').waitFor();
      });
    });

    await t.test('a person enrols a passkey of their own and approves with it', async () => {
      const waiting = await waits(client, 'Double the retry budget');
      const { token: secret } = token(home, 'lea', 'approver');
      await visit(browser, origin, {}, async (page) => {
        const devtools = await page.context().newCDPSession(page);
        await devtools.send('WebAuthn.enable');
        await devtools.send('WebAuthn.addVirtualAuthenticator', {
          options: {
            protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
            isUserVerified: true, automaticPresenceSimulation: true,
          },
        });
        await page.goto('/login');
        await logIn(page, secret);
        await openLive(page, '/settings/passkeys');
        await page.getByLabel('Name').fill('Laptop');
        await page.getByRole('button', { name: 'Enrol' }).click();
        await page.getByText('lea: Laptop').waitFor();
        await openLive(page, `/run/${waiting.run.runId}`);
        await page.getByRole('button', { name: /^Approve/ }).first().click();
        await page.locator('.said', { hasText: 'Approved.' }).waitFor();
      });
      const [decided] = decisions(home, waiting);
      assert.deepEqual([decided.actor.name, decided.data.channel], ['lea', 'passkey']);
      const { counts } = run(home, ['store', 'verify', '--json']);
      assert.deepEqual([counts.signedDecisions, counts.problems], [1, 0]);
    });
  });
});

/// An untrusted certificate, which the browser is told to accept.
function certificate(home) {
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(home.root, name));
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1',
    '-keyout', key, '-out', cert, ...subject], { stdio: 'ignore' });
  return ['--tls-cert', cert, '--tls-key', key];
}

test('over TLS', async () => {
  await withTeam(certificate, async ({ home, browser, origin }) => {
    const { token: secret } = token(home, 'ada', 'admin');
    await visit(browser, origin, { ignoreHTTPSErrors: true }, async (page) => {
      await page.goto('/');
      await logIn(page, secret);
      await page.getByText('ada (admin)').waitFor();
      const [cookie] = await page.context().cookies();
      assert.deepEqual([cookie.name, cookie.secure, cookie.httpOnly, cookie.sameSite], ['__Host-workrail-login', true, true, 'Strict']);
    });
  });
});
