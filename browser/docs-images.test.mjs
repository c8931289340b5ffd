// The images of docs/console.md, from a busy day. To update them:
//
//   browser/run docs-images && cp target/browser/screenshots/console-*.png docs/images/

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLive, withConsole } from './chromium.mjs';
import { completes, defineWorkflows, inALoop, waitsForAgent, waitsForAnswer, waitsForApproval } from './sessions.mjs';

const BYTES_MAX = 150 * 1024;

/// Several sessions: one waits for an approval, one asks a question, one is blocked, others run or are done.
async function busyDay(home) {
  defineWorkflows(home);
  const client = await home.client();
  await completes(client, 'wr.small_change', 'Share one retry budget between all callers');
  await completes(client, 'wr.small_change', 'Log the region with every request');
  await waitsForApproval(client, 'Release the retry budget to every region');
  await waitsForAnswer(client, 'Move the sessions table to the new schema');
  await waitsForAgent(client, 'Fix the typo on the sign-in page');
  const looping = await inALoop(client, 'Use the new clock in every module');
  const outer = await client.next(await client.begin('wr.coding_task', 'Add a rate limit to the public API'));
  for (const goal of ['Extract the limiter first', 'Measure the limiter']) {
    await client.next(await client.call('start_workflow', { workflowId: 'wr.small_change', goal, parent: outer.ackToken }));
  }
  return { now: '/', run: `/run/${looping.run.runId}`, session: `/session/${outer.run.sessionId}` };
}

test('images for the documentation', async () => {
  await withConsole(busyDay, async ({ prepared: pages, visit }) => {
    for (const [name, address] of Object.entries(pages)) {
      await visit({ colorScheme: 'light', viewport: { width: 1200, height: 760 } }, async (page) => {
        await openLive(page, address);
        const path = join(process.env.WORKRAIL_SCREENSHOTS, `console-${name}.png`);
        await page.screenshot({ path });
        assert.ok(statSync(path).size <= BYTES_MAX, `${name}: ${statSync(path).size} bytes`);
      });
    }
  });
});
