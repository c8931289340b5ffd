// What a newcomer reads on a busy day: where each run is, what is stuck and why, and what moves it.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLive, withConsole } from './chromium.mjs';
import { completes, defineWorkflows, waitsForAgent, waitsForAnswer, waitsForApproval } from './sessions.mjs';

const overflows = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;

async function prepare(home) {
  defineWorkflows(home);
  const client = await home.client();
  const approval = await waitsForApproval(client, 'Release the retry budget');
  const question = await waitsForAnswer(client, 'Move the sessions table');
  const blocked = await waitsForAgent(client, 'Fix the typo');
  const running = await client.next(await client.begin('wr.coding_task', 'Add a rate limit'));
  const done = await completes(client, 'wr.small_change', 'Share one budget');
  const damaged = await client.begin('wr.small_change', 'Damaged');
  writeFileSync(join(home.data, 'sessions', damaged.run.sessionId, 'manifest.jsonl'), 'damaged\n');
  return { approval, question, blocked, running, done, damaged };
}

test('a busy day says what is stuck, why, and what moves it', async (t) => {
  await withConsole(prepare, async ({ prepared: runs, visit }) => {
    const card = (page, run) => page.locator('article.card', { has: page.locator(`h3 a[href="/run/${run.run.runId}"]`) });

    await t.test('each card says what it waits for', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        await card(page, runs.approval).getByText('Plan the release waits for your approval.').waitFor();
        await card(page, runs.question).getByText('Find the scope asks you.').waitFor();
        const refused = card(page, runs.blocked);
        await refused.getByText("is blocked: the agent's last attempt was refused.").waitFor();
        assert.ok(!(await refused.innerText()).includes('`'), 'names are shown as names');
      });
    });

    await t.test('a blocked run leads to the form that closes it', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/');
        await card(page, runs.blocked).getByRole('link', { name: 'close the run' }).click();
        await page.getByLabel('Why', { exact: true }).fill('Superseded by the new page');
        await page.getByRole('button', { name: 'Close', exact: true }).click();
        await page.locator('.said', { hasText: 'Closed.' }).waitFor();
        await page.getByText('Superseded by the new page').first().waitFor();
      });
    });

    await t.test('a run says what was written last without another click', async () => {
      await visit({}, async (page) => {
        for (const [run, title] of [[runs.done, 'Outcome'], [runs.running, 'Latest notes']]) {
          await openLive(page, `/run/${run.run.runId}`);
          assert.match(await page.locator('#latest').innerText(), new RegExp(`^${title}[\\s\\S]*The budget is shared`));
        }
        await openLive(page, `/session/${runs.running.run.sessionId}`);
        await page.getByRole('heading', { name: 'Session: Add a rate limit' }).waitFor();
      });
    });

    await t.test('a damaged session shows the command that repairs it', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/session/${runs.damaged.run.sessionId}`);
        const command = `workrail store repair ${runs.damaged.run.sessionId} --dry-run`;
        assert.equal((await page.locator('#session pre').innerText()).trim(), command);
      });
    });

    await t.test('settings are read at the width of a phone', async () => {
      await visit({ viewport: { width: 390, height: 844 } }, async (page) => {
        for (const address of ['/settings', '/?status=damaged']) {
          await openLive(page, address);
          assert.equal(await page.evaluate(overflows), false, address);
          const cut = await page.locator('table.stacked').evaluate((own) => own.scrollWidth > own.parentElement.clientWidth);
          assert.equal(cut, false, `${address}: the table scrolls sideways`);
        }
      });
    });
  });
});
