// Figures of the console, one line each: a small sample by default, everything with WORKRAIL_PROOF=full. Time limits
// are checked only then; a busy machine would fail the sample for nothing.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { test } from 'node:test';
import { openLive, withConsole } from './chromium.mjs';
import { defineWorkflows } from './sessions.mjs';

const IS_FULL = process.env.WORKRAIL_PROOF === 'full';
const SESSIONS = IS_FULL ? 10_000 : 200;
const POINTS = IS_FULL ? 1_000 : 100;
const CONNECTIONS = IS_FULL ? 1_000 : 200;
const IDLE_MS = IS_FULL ? 10_000 : 2_000;
const FEW = 20;
const TIMES_MAX = 3;
/// A longer frame is visible as a stutter.
const FRAME_MS_MAX = 100;

const LONG = {
  id: 'team.long', name: 'Long', description: 'Many points.', version: '1.0.0',
  steps: [{
    id: 'rounds', type: 'loop', title: 'Rounds', loop: { type: 'for', count: POINTS / 2, maxIterations: POINTS / 2 },
    body: [
      { id: 'change', title: 'Change the module', prompt: 'Change it.' },
      { id: 'check', title: 'Check the module', prompt: 'Check it.' },
    ],
  }],
};

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/// Measures how long something takes, in milliseconds, several times.
async function timed(times, work) {
  const took = [];
  for (let time = 0; time < times; time += 1) {
    const begin = performance.now();
    await work();
    took.push(performance.now() - begin);
  }
  return median(took);
}

/// The clock ticks that a process has used.
function ticks(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

async function fill(client, sessions) {
  for (let session = 0; session < sessions; session += 1) await client.begin('wr.small_change', `Goal number ${session}`);
}

async function prepare(home) {
  defineWorkflows(home);
  home.workflow(LONG);
  const client = await home.client();
  await fill(client, FEW);
  return client;
}

/// An empty page from another server, to measure the browser itself.
async function withEmptyPage(use) {
  const server = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<!doctype html><title>x</title>'));
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  try {
    await use(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

test('figures', async (t) => {
  await withConsole(prepare, async ({ home, prepared: client, visit, opening }) => {
    const { origin } = new URL(opening);
    const pid = home.started.at(-1).child.pid;
    let cookie = '';
    await visit({}, async (page, context) => {
      cookie = (await context.cookies(origin)).map(({ name, value }) => `${name}=${value}`).join('; ');
      await openLive(page, '/');
    });
    const now = () => fetch(`${origin}/`, { headers: { cookie } }).then((answer) => answer.text());

    await t.test('idle', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        // Wait until rendering after the last change is over.
        await page.waitForTimeout(7_000);
        const before = ticks(pid);
        await page.waitForTimeout(IDLE_MS);
        const used = ticks(pid) - before;
        t.diagnostic(`idle with one page open: ${used * 10} ms of CPU in ${IDLE_MS / 1000} s`);
        if (IS_FULL) assert.ok(used <= 1, `${used} ticks`);
      });
    });

    await t.test('the first page over many sessions', async () => {
      await now();
      const few = await timed(9, now);
      await fill(client, SESSIONS - FEW);
      await now();
      const many = await timed(9, now);
      t.diagnostic(`Now: ${few.toFixed(1)} ms over ${FEW} sessions, ${many.toFixed(1)} ms over ${SESSIONS}: ${(many / few).toFixed(1)} times`);
      if (IS_FULL) assert.ok(many <= TIMES_MAX * few, `${many} ms, ${few} ms`);
    });

    await t.test('interactive', async () => {
      await withEmptyPage(async (empty) => {
        await visit({}, async (page) => {
          const interactive = async (address) => {
            await page.goto(address);
            return page.evaluate(() => performance.getEntriesByType('navigation')[0].domInteractive);
          };
          const measure = async (address) => {
            const took = [];
            for (let time = 0; time < 7; time += 1) took.push(await interactive(address));
            return median(took);
          };
          const [bare, first] = [await measure(empty), await measure('/')];
          t.diagnostic(`interactive after ${first.toFixed(0)} ms, an empty page after ${bare.toFixed(0)} ms: ${(first / bare).toFixed(1)} times`);
          if (IS_FULL) assert.ok(first <= TIMES_MAX * bare, `${first} ms, ${bare} ms`);
        });
      });
    });

    await t.test('a long run is drawn and moved', async () => {
      let reply = await client.begin('team.long', 'Many points');
      const { runId } = reply.run;
      for (let point = 1; point < POINTS; point += 1) reply = await client.next(reply);
      await visit({}, async (page) => {
        const begin = performance.now();
        await openLive(page, `/run/${runId}?open=all`);
        const drawn = performance.now() - begin;
        assert.equal(await page.locator('svg[data-pan] a circle').count(), POINTS);
        const longest = await page.evaluate(async () => {
          const box = document.querySelector('.path');
          let [last, longest] = [performance.now(), 0];
          for (let frame = 0; frame < 60; frame += 1) {
            box.scrollTop += 200;
            await new Promise((resolve) => { requestAnimationFrame(resolve); });
            const at = performance.now();
            [longest, last] = [Math.max(longest, at - last), at];
          }
          return longest;
        });
        t.diagnostic(`${POINTS} points: shown after ${drawn.toFixed(0)} ms, longest frame while moving ${longest.toFixed(0)} ms`);
        if (IS_FULL) assert.ok(longest <= FRAME_MS_MAX, `${longest} ms`);
      });
    });

    await t.test('many connections at once', async () => {
      const { hostname, port } = new URL(origin);
      const ask = () => new Promise((resolve) => {
        const request = get({ hostname, port, path: '/logs', headers: { cookie, connection: 'close' }, agent: false }, (answer) => {
          answer.resume();
          answer.on('end', () => resolve(answer.statusCode));
        });
        request.on('error', (error) => resolve(error.code));
      });
      const begin = performance.now();
      const answers = await Promise.all(Array.from({ length: CONNECTIONS }, ask));
      const answered = answers.filter((status) => status === 200).length;
      t.diagnostic(`${CONNECTIONS} connections at once: ${answered} answered in ${(performance.now() - begin).toFixed(0)} ms`);
      assert.equal(answered, CONNECTIONS, [...new Set(answers)].join(', '));
    });
  });
});
