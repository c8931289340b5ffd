// Comparing in the browser: from a run's page and from the list, on a phone, with the keyboard, and with hostile content.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openLive, seriousViolations, withConsole } from './chromium.mjs';

const HOSTILE = '<img src=x onerror="document.title=\'owned\'"> </textarea><script>document.title="owned"</script>';

const CHANGE = {
  id: 'team.change', name: 'A change', description: 'Change and check.', version: '1.0.0',
  steps: [
    {
      id: 'change', title: 'Make the change', prompt: 'Change it.',
      validationCriteria: [{ type: 'contains', value: 'done', message: 'Say that it is done.' }],
    },
    { id: 'check', title: 'Check the change', prompt: 'Check it.' },
  ],
};

async function prepare(home) {
  home.workflow(CHANGE);
  const client = await home.client();
  const output = (notes, severity) => ({
    notesMarkdown: notes, artifacts: [{ kind: 'team.risk', severity, [`<b>${severity}</b>`]: HOSTILE }],
  });
  const send = (reply, own) => client.next(reply, (args) => { args.output = own; });
  const first = await client.begin(CHANGE.id, `Give retries a budget ${HOSTILE}`);
  const refused = await send(first, output('Not yet.', 'low'));
  await send(refused, output(`It is done with three attempts. ${HOSTILE}`, 'low'));
  const again = await client.call('continue_workflow', { run: first.run.label, stateToken: first.stateToken });
  await send(again, output(`It is done after ten seconds. ${HOSTILE}`, 'high'));
  const other = await client.begin(CHANGE.id, 'The same for uploads');
  return { client, run: first.run, other: other.run };
}

function overflows() {
  const { clientWidth, scrollWidth } = document.documentElement;
  return scrollWidth > clientWidth;
}

test('comparing', async (t) => {
  await withConsole(prepare, async ({ prepared: { client, run, other }, visit }) => {
    await t.test('from a run to its other branch, and on with the call that is offered', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/run/${run.runId}`);
        await page.getByRole('link', { name: /^Compare with branch b/ }).click();
        await page.getByRole('heading', { name: 'A continues' }).waitFor();
        const step = page.locator('article', { hasText: 'Make the change' });
        assert.match(await step.innerText(), /differs/);
        assert.match(await step.locator('tr.only-a').first().innerText(), /ten seconds/);
        assert.match(await step.locator('tr.only-b').first().innerText(), /three attempts/);
        const field = step.locator('tr', { hasText: 'severity' }).first();
        assert.match(await field.innerText(), /high[\s\S]*low/);
        const text = await page.locator('#continues pre').nth(1).innerText();
        const call = text.match(/^(\w+) (\{[\s\S]*\})$/);
        const looked = await client.call(call[1], JSON.parse(call[2]));
        assert.equal(looked.pending.stepId, 'check');
      });
    });

    await t.test('what an agent wrote is text', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/compare?a=${run.runId}&b=${other.runId}`);
        assert.match(await page.locator('#steps').innerText(), /<img src=x/);
        assert.equal(await page.locator('main img, main script').count(), 0);
        assert.doesNotMatch(await page.title(), /owned$/);
      });
    });

    await t.test('attempts are compared from their point', async () => {
      await visit({}, async (page) => {
        await openLive(page, `/run/${run.runId}`);
        await page.locator('#graph a', { hasText: 'Make the change' }).first().click();
        await page.getByRole('link', { name: 'Compare attempts 1 and 3' }).click();
        await page.getByText('attempt 1 was refused').waitFor();
        assert.match(await page.locator('#steps').innerText(), /Not yet\./);
      });
    });

    await t.test('from the list to two runs, with the keyboard alone, at the width of a phone', async () => {
      await visit({ viewport: { width: 390, height: 844 } }, async (page) => {
        await openLive(page, '/?status=running');
        await page.locator('summary', { hasText: '…' }).and(page.getByLabel(run.label)).focus();
        await page.keyboard.press('Enter');
        await page.getByRole('link', { name: `Compare ${run.label}` }).focus();
        await page.keyboard.press('Enter');
        await page.getByRole('heading', { name: 'Other runs' }).waitFor();
        assert.equal(await page.evaluate(overflows), false, 'the choices scroll sideways');
        await page.getByRole('link', { name: other.label }).focus();
        await page.keyboard.press('Enter');
        await page.getByRole('heading', { name: 'Both runs are open' }).waitFor();
        assert.equal(await page.evaluate(overflows), false, 'the comparison scrolls sideways');
        assert.deepEqual(await seriousViolations(page), [], 'axe');
        await page.getByRole('link', { name: 'Swap A and B' }).focus();
        await page.keyboard.press('Enter');
        await page.waitForURL(`**/compare?a=${other.runId}&b=${run.runId}`);
      });
    });

    await t.test('works without script', async () => {
      await visit({ javaScriptEnabled: false }, async (page) => {
        await page.goto(`/compare?a=${run.runId}%40a&b=${run.runId}%40b`);
        await page.getByRole('heading', { name: 'A continues' }).waitFor();
      });
    });
  });
});
