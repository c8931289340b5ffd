// Passkeys in Chromium, with its virtual authenticator: enrolling, deciding, replacing, and what does not count.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLive, withConsole } from './chromium.mjs';
import { Home } from './home.mjs';

const SIGNED = {
  id: 'team.signed',
  name: 'Signed release',
  description: 'Release a service; a person approves the plan with a passkey.',
  version: '1.0.0',
  steps: [
    {
      id: 'plan', title: 'Plan the release', prompt: 'Plan the release.',
      requireConfirmation: { kind: 'human_approval', proof: 'passkey' },
    },
    { id: 'deploy', title: 'Deploy', prompt: 'Deploy what was approved.' },
  ],
};

const CHECKED = {
  id: 'team.checked',
  name: 'Checked',
  description: 'Runs a check of the project.',
  version: '1.0.0',
  steps: [{ id: 'work', title: 'Work', prompt: 'Do it.', checks: [{ command: 'test' }] }],
};

async function prepare(home) {
  home.workflow(SIGNED);
  return home.client();
}

async function waits(client, goal) {
  const first = await client.begin(SIGNED.id, goal);
  return client.next(first, (args) => { args.output = { notesMarkdown: `The plan: ${goal}` }; });
}

/// An authenticator in the browser; `verifies` says whether its user confirms with a finger.
async function authenticator(page, { verifies = true } = {}) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
      isUserVerified: verifies, automaticPresenceSimulation: true,
    },
  });
  return { devtools, authenticatorId };
}

/// Moves the keys of one page's authenticator to another page's.
async function withKeys(page, credentials) {
  const made = await authenticator(page);
  for (const credential of credentials) {
    await made.devtools.send('WebAuthn.addCredential', { authenticatorId: made.authenticatorId, credential });
  }
  return made;
}

async function keysOf({ devtools, authenticatorId }) {
  return (await devtools.send('WebAuthn.getCredentials', { authenticatorId })).credentials;
}

async function enrol(page, name) {
  await openLive(page, '/settings/passkeys');
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Enrol' }).click();
  await page.locator('.said', { hasText: 'Enrolled.' }).waitFor();
}

const approve = (page) => page.getByRole('button', { name: /^Approve/ }).first();

function run(home, args) {
  const options = { env: home.variables, encoding: 'utf8' };
  return JSON.parse(execFileSync(process.env.WORKRAIL_PROGRAM, args, options));
}

function decisions(home, waiting) {
  const { events } = run(home, ['log', waiting.run.runId, '--json']);
  return events.filter((event) => event.kind === 'approval_recorded');
}

/// What an agent with a shell tries before the user decides: each is refused, and the gate stays closed.
async function agentTries(home, client, waiting) {
  const { label, sessionId } = waiting.run;
  const commands = [['approve', label], ['session', 'prefs', 'set', 'full_auto_never_stop', '--session', sessionId]];
  for (const args of commands) {
    // Its own terminal, into which it types what is asked for.
    const words = [process.env.WORKRAIL_PROGRAM, ...args].map((word) => `'${word}'`).join(' ');
    const terminal = ['--quiet', '--return', '--echo', 'never', '--command', words, '/dev/null'];
    const { status } = spawnSync('script', terminal, { env: home.variables, input: `${label}\n` });
    assert.notEqual(status, 0, args.join(' '));
  }
  const never = await client.call('start_workflow', { workflowId: SIGNED.id, goal: 'Never stop', mode: 'full_auto_never_stop' });
  const stopped = await client.next(never, (args) => { args.output = { notesMarkdown: 'A plan that nobody reads.' }; });
  assert.equal(stopped.kind, 'blocked', stopped.text);
  const again = await client.next(waiting);
  assert.equal(again.kind, 'blocked', again.text);
  return again;
}

/// Another machine: it has only the bundle, and what the user says about their key.
async function audit(home, waiting) {
  const bundle = join(home.root, 'bundle.json');
  execFileSync(process.env.WORKRAIL_PROGRAM, ['session', 'export', waiting.run.sessionId, '-o', bundle], { env: home.variables });
  const elsewhere = new Home();
  try {
    run(elsewhere, ['session', 'import', bundle, '--json']);
    const { counts, signed } = run(elsewhere, ['store', 'verify', '--json']);
    assert.deepEqual([counts.signedDecisions, counts.foreignDecisions, counts.problems], [0, 1, 0]);
    const { passkeys } = run(home, ['store', 'passkeys', 'show', '--json']);
    const [{ what, fingerprint, isForeign }] = signed;
    assert.deepEqual([what, fingerprint, isForeign], ['approved', passkeys[0].fingerprint, true]);
  } finally {
    await elsewhere.remove();
  }
}

test('passkeys', async (t) => {
  await withConsole(prepare, async ({ home, prepared: client, visit }) => {
    let credentials = [];

    await t.test('a person approves on a narrow screen, no agent does, and an auditor verifies it elsewhere', async () => {
      const first = await waits(client, 'Raise the retry budget');
      const waiting = await agentTries(home, client, first);
      await visit({ viewport: { width: 390, height: 800 } }, async (page) => {
        const device = await authenticator(page);
        await openLive(page, `/run/${waiting.run.runId}`);
        await page.getByText('Only a passkey counts here, and none is enrolled.').waitFor();
        await enrol(page, 'Laptop, fingerprint');
        const fits = () => document.documentElement.scrollWidth <= document.documentElement.clientWidth;
        assert.ok(await page.evaluate(fits), 'the settings fit');
        await openLive(page, `/run/${waiting.run.runId}`);
        assert.ok(await page.evaluate(fits), 'the decision fits');
        await approve(page).click();
        await page.locator('.said', { hasText: 'Approved.' }).waitFor();
        await page.getByText('with the passkey "Laptop, fingerprint"').first().waitFor();
        credentials = await keysOf(device);
      });
      assert.equal(decisions(home, waiting)[0].data.channel, 'passkey');
      const moved = await client.next(waiting);
      assert.notEqual(moved.kind, 'blocked', moved.text);
      const { counts } = run(home, ['store', 'verify', '--json']);
      assert.deepEqual([counts.signedDecisions, counts.problems], [1, 0]);
      await audit(home, waiting);
    });

    await t.test('a further key is agreed to by an enrolled one, and takes its place', async () => {
      await visit({}, async (page) => {
        const old = credentials;
        const fresh = await authenticator(page);
        await openLive(page, '/settings/passkeys');
        await page.getByLabel('Name').fill('Phone');
        await page.getByLabel('In place of').selectOption({ label: 'Laptop, fingerprint' });
        // The user uses the new device first, then the old one.
        await page.exposeFunction('takeOldDevice', async () => {
          credentials = await keysOf(fresh);
          const { devtools, authenticatorId } = fresh;
          for (const { credentialId } of credentials) {
            await devtools.send('WebAuthn.removeCredential', { authenticatorId, credentialId });
          }
          for (const credential of old) {
            await devtools.send('WebAuthn.addCredential', { authenticatorId, credential });
          }
        });
        await page.evaluate(() => {
          const get = navigator.credentials.get.bind(navigator.credentials);
          navigator.credentials.get = async (options) => {
            await window.takeOldDevice();
            return get(options);
          };
        });
        await page.getByRole('button', { name: 'Enrol' }).click();
        await page.locator('.said', { hasText: 'Enrolled.' }).waitFor();
        const { passkeys } = run(home, ['store', 'passkeys', 'show', '--json']);
        const states = passkeys.map((own) => [own.name, own.state]);
        assert.deepEqual(states, [['Laptop, fingerprint', 'replaced'], ['Phone', 'enrolled']]);
      });
    });

    await t.test('a person trusts the checks of the project, and takes it back', async () => {
      home.workflow(CHECKED);
      mkdirSync(join(home.root, 'project/.workrail'));
      writeFileSync(join(home.root, 'project/.workrail/checks.toml'), '[test]\nargv = ["true"]\n');
      const trusted = () => run(home, ['trust', 'list', '--json']).trusted.map((own) => own.command.argv);
      await visit({ viewport: { width: 390, height: 800 } }, async (page) => {
        await withKeys(page, credentials);
        await openLive(page, '/settings/checks');
        const fits = () => document.documentElement.scrollWidth <= document.documentElement.clientWidth;
        assert.ok(await page.evaluate(fits), 'the commands fit');
        await page.getByRole('button', { name: 'Trust with a passkey' }).click();
        await page.locator('.said', { hasText: 'Trusted.' }).waitFor();
        assert.deepEqual(trusted(), [['true']]);
        await page.getByRole('button', { name: 'Revoke trust in test for every workflow' }).click();
        await page.locator('.said', { hasText: 'No longer trusted.' }).waitFor();
        assert.deepEqual(trusted(), []);
      });
    });

    await t.test('an authenticator that verifies nobody signs nothing', async () => {
      const waiting = await waits(client, 'Without a finger');
      await visit({}, async (page) => {
        const { devtools, authenticatorId } = await withKeys(page, credentials);
        await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
        await openLive(page, `/run/${waiting.run.runId}`);
        await approve(page).click();
        await page.locator('[data-passkey-said]', { hasText: 'Nothing was recorded.' }).waitFor();
      });
      assert.deepEqual(decisions(home, waiting), []);
    });

    await t.test('a form without script records nothing', async () => {
      const waiting = await waits(client, 'Without script');
      await assert.rejects(visit({ javaScriptEnabled: false }, async (page) => {
        await page.goto(`/run/${waiting.run.runId}`);
        await approve(page).click();
        await page.getByText('requires a passkey').waitFor();
      }), /409/);
      assert.deepEqual(decisions(home, waiting), []);
    });

    await t.test('a fake console on another port gets a signature that is worth nothing', async () => {
      const waiting = await waits(client, 'Phished');
      const fake = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<title>WorkRail</title>'));
      await new Promise((resolve) => fake.listen(0, 'localhost', resolve));
      try {
        await assert.rejects(visit({}, async (page) => {
          await withKeys(page, credentials);
          await openLive(page, `/run/${waiting.run.runId}`);
          // The real challenge, which any program of the user can request.
          const asked = await page.evaluate(async (path) => {
            const form = document.querySelector(`form[action="${path}"]`);
            const fields = [...new FormData(form)];
            const answer = await fetch(`/passkeys${path}`, { method: 'POST', body: new URLSearchParams(fields) });
            return { fields, asked: await answer.json() };
          }, `/run/${waiting.run.runId}/approve`);
          const own = page.url();
          await page.goto(`http://localhost:${fake.address().port}/`);
          const signed = await page.evaluate(async ({ challenge, credentials: known, party }) => {
            const decode = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
            const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
              .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
            const allowCredentials = known.map((id) => ({ type: 'public-key', id: decode(id) }));
            const got = await navigator.credentials.get({
              publicKey: { challenge: decode(challenge), rpId: party, allowCredentials, userVerification: 'required' },
            });
            return [
              ['passkey.credential', encode(got.rawId)],
              ['passkey.authenticatorData', encode(got.response.authenticatorData)],
              ['passkey.clientData', encode(got.response.clientDataJSON)],
              ['passkey.signature', encode(got.response.signature)],
            ];
          }, asked.asked);
          await page.goto(own);
          const fields = [...asked.fields, ['passkey.nonce', asked.asked.nonce], ...signed];
          const answer = await page.evaluate(async ({ path, fields: sent }) => {
            const response = await fetch(path, { method: 'POST', body: new URLSearchParams(sent) });
            return response.text();
          }, { path: `/run/${waiting.run.runId}/approve`, fields });
          assert.match(answer, /made for another origin/);
        }), /409/);
      } finally {
        fake.close();
      }
      assert.deepEqual(decisions(home, waiting), []);
    });
  });
});
