// Editing a workflow in the browser: a broken file is fixed without leaving the page, and nothing else is ever written.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLive, scriptRuns, seriousViolations, withConsole } from './chromium.mjs';

const HOSTILE = '</textarea><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>';

const BROKEN = `{
  "id": "team.review",
  "name": "Review ${HOSTILE.replaceAll('"', '\\"')}",
  "description": "Review a change.",
  "version": "1.0.0",
  "steps": [
    { "id": "read", "title": "Read the change", "promt": "Read it." },
    { "id": "judge", "title": "Judge the change", "prompt": "Say what is wrong with it." }
  ]
}
`;

const SCRIPT = `[[run]]
name = "the ordinary way"

[[run.step]]
expect = "read"
notes = "Read all of it."
`;

function overflows() {
  const { clientWidth, scrollWidth } = document.documentElement;
  return scrollWidth > clientWidth;
}

test('editing', async (t) => {
  const prepare = async (home) => {
    const file = join(home.root, 'workflows', 'team.review.json');
    writeFileSync(file, BROKEN);
    writeFileSync(join(home.root, 'workflows', 'team.review.test.toml'), SCRIPT);
    return { file };
  };
  await withConsole(prepare, async ({ home, prepared: { file }, visit, opening }) => {
    // An unusable file is in the list; a usable one has a page.
    const edit = async (page, from = '/workflows/team.review') => {
      await openLive(page, from);
      await page.getByRole('link', { name: 'Edit team.review.json' }).click();
      await page.locator('textarea[name=text]').waitFor();
      await scriptRuns(page);
    };

    await t.test('an author fixes a broken workflow without the guide', async () => {
      await visit({ viewport: { width: 1280, height: 800 } }, async (page) => {
        // Broken files come first in the list, with a link to the editor.
        await openLive(page, '/workflows');
        const headings = await page.locator('main h2').allInnerTexts();
        assert.match(headings[0], /Files that cannot be used/);
        await page.getByRole('link', { name: 'Edit team.review.json' }).click();
        const sheet = page.locator('textarea[name=text]');
        await sheet.waitFor();
        await scriptRuns(page);
        const address = page.url();

        // The problem is next to the source, with its line and what to write instead.
        const problem = page.locator('ol.problems li.bad', { hasText: 'a step has no field promt' });
        assert.match(await problem.innerText(), /Line 7[\s\S]*Fix:[\s\S]*prompt/);
        const [source, said] = [await sheet.boundingBox(), await problem.boundingBox()];
        assert.ok(said.x >= source.x + source.width && said.y < source.y + source.height, 'next to the source');
        assert.match(await page.locator('#numbers .bad').first().getAttribute('title'), /Fix:/);
        await page.getByRole('button', { name: 'Line 7' }).first().click();
        const selected = await sheet.evaluate((own) => own.value.slice(own.selectionStart, own.selectionEnd));
        assert.match(selected, /"promt"/);

        // Selected by script: End would move past the line, so the word itself is replaced.
        await sheet.evaluate((own) => own.setSelectionRange(own.value.indexOf('promt'), own.value.indexOf('promt') + 5));
        await page.keyboard.type('prompt');
        await page.getByRole('heading', { name: 'Plan 2 steps' }).waitFor();
        assert.equal(await page.locator('ol.problems li.bad').count(), 0);
        const prompt = page.locator('#plan pre');
        await prompt.filter({ hasText: 'Read it.' }).waitFor();
        const shown = await prompt.boundingBox();
        assert.ok(shown.x >= source.x + source.width && shown.y < 800, 'the prompt is next to the source');
        await sheet.evaluate((own) => {
          own.focus();
          own.setSelectionRange(own.value.indexOf('Say what'), own.value.indexOf('Say what'));
        });
        await page.locator('#plan pre', { hasText: 'Say what is wrong' }).waitFor();

        // While a text has errors, the last plan stays and says so.
        await page.keyboard.type('"');
        await page.locator('ol.problems li.bad').first().waitFor();
        await page.getByText('Of the last text without errors').waitFor();
        assert.ok(await page.getByRole('heading', { name: 'Plan 2 steps' }).isVisible());
        await page.keyboard.press('Backspace');
        await page.getByText('Of the last text without errors').waitFor({ state: 'hidden' });

        // The changes are shown before anything is saved.
        assert.equal(await page.getByRole('button', { name: /^Save/ }).count(), 0);
        await page.getByRole('button', { name: 'Review and save' }).click();
        await page.locator('#outcome tr.only-a', { hasText: '"promt"' }).waitFor();
        await page.locator('#outcome tr.only-b', { hasText: '"prompt"' }).waitFor();
        assert.equal(readFileSync(file, 'utf8'), BROKEN);
        assert.notEqual(await sheet.evaluate((own) => own.selectionStart), 0, 'the cursor is where it was');
        await page.getByRole('button', { name: 'Save team.review.json' }).click();
        await page.getByText('Saved.').waitFor();
        assert.equal(page.url().split(/[?#]/)[0], address);
        assert.equal(readFileSync(file, 'utf8'), BROKEN.replace('promt', 'prompt'));
        await openLive(page, '/workflows');
        assert.equal(await page.getByText('Files that cannot be used').count(), 0);
      });
    });

    await t.test('its tests are run, with what they do not reach', async () => {
      await visit({}, async (page) => {
        await edit(page);
        await page.getByRole('button', { name: 'Run tests' }).click();
        await page.getByRole('heading', { name: 'Tests' }).waitFor();
        assert.match(await page.locator('#outcome').innerText(), /the ordinary way[\s\S]*Reached 1 of 2 steps[\s\S]*judge/);
      });
    });

    await t.test('a builtin is inserted at the cursor', async () => {
      await visit({}, async (page) => {
        await edit(page);
        await page.locator('textarea[name=text]').evaluate((own) => {
          const at = own.value.indexOf('"title": "Judge');
          own.setSelectionRange(at, at);
        });
        await page.locator('#builtins summary', { hasText: 'Contracts' }).click();
        await page.getByRole('button', { name: 'Insert wr.contracts.review_verdict' }).click();
        const value = await page.locator('textarea[name=text]').inputValue();
        assert.match(value, /"outputContract": \{"contractRef":"wr.contracts.review_verdict"\}"title": "Judge/);
        await page.locator('ol.problems li.bad').first().waitFor();
        page.on('dialog', (dialog) => dialog.accept());
      });
    });

    await t.test('a change on disk meanwhile is detected and nothing is overwritten', async () => {
      await visit({}, async (page) => {
        await edit(page);
        const other = readFileSync(file, 'utf8').replace('1.0.0', '2.0.0');
        writeFileSync(file, other);
        await page.locator('textarea[name=text]').fill(other.replace('2.0.0', '3.0.0'));
        await page.getByRole('button', { name: 'Review and save' }).click();
        await page.getByText('changed on disk since it was loaded').waitFor();
        assert.equal(await page.getByRole('button', { name: /^Save/ }).count(), 0);
        assert.equal(readFileSync(file, 'utf8'), other);
        assert.match(await page.locator('textarea[name=text]').inputValue(), /3\.0\.0/, 'what was typed is kept');
        // After reviewing the changes against the current file, the user may overwrite it.
        await page.getByRole('button', { name: 'Compare with the file as it is now' }).click();
        await page.locator('#outcome tr.only-a', { hasText: '2.0.0' }).waitFor();
        await page.getByRole('button', { name: 'Save team.review.json' }).waitFor();
        assert.equal(readFileSync(file, 'utf8'), other);
      });
    });

    await t.test('a legacy id is refused with its new name', async () => {
      await visit({}, async (page) => {
        await edit(page);
        const before = readFileSync(file, 'utf8');
        await page.locator('textarea[name=text]').fill(before.replace('team.review', 'review'));
        await page.getByRole('button', { name: 'Review and save' }).click();
        await page.locator('#outcome', { hasText: 'has no namespace' }).waitFor();
        assert.match(await page.locator('#outcome').innerText(), /user\.review/);
        assert.equal(readFileSync(file, 'utf8'), before);
      });
    });

    await t.test('bundled workflows cannot be edited or saved', async () => {
      await visit({}, async (page) => {
        await openLive(page, '/workflows/wr.small_change');
        await page.getByRole('link', { name: 'View the source with its checks' }).click();
        await page.getByText('Read-only.').waitFor();
        assert.equal(await page.getByRole('button', { name: /ave/ }).count(), 0);
        assert.ok(await page.locator('textarea[name=text]').evaluate((own) => own.readOnly));
        // A handmade form is refused, too.
        const answer = await page.evaluate(async () => {
          const form = document.querySelector('form[data-editor]');
          const body = new URLSearchParams(new FormData(form));
          body.set('action', 'save');
          return (await fetch(form.getAttribute('action'), { method: 'POST', body })).text();
        });
        assert.match(answer, /This source is read-only/);
      });
    });

    await t.test('a foreign page and a missing token are refused', async () => {
      await visit({}, async (page, context) => {
        await edit(page);
        const before = readFileSync(file, 'utf8');
        const fields = await page.evaluate(() => Object.fromEntries(new FormData(document.querySelector('form[data-editor]'))));
        const address = page.url();
        const form = { ...fields, text: before.replace('Judge', 'Owned'), action: 'save' };
        const origin = new URL(opening).origin;
        const foreign = await context.request.post(address, { form, headers: { Origin: 'http://evil.example' } });
        assert.equal(foreign.status(), 403);
        const { token, ...without } = form;
        assert.ok(token);
        assert.equal((await context.request.post(address, { form: without, headers: { Origin: origin } })).status(), 403);
        assert.equal((await context.request.post(`${address}/check`, { form: without, headers: { Origin: origin } })).status(), 403);
        assert.equal(readFileSync(file, 'utf8'), before);
        assert.equal((await context.request.get(`${origin}/edit/..%2F..%2Fetc%2Fpasswd`)).status(), 404);
        assert.ok(!existsSync(join(home.root, 'workflows', 'passwd')));
      });
    });

    await t.test('hostile content is text', async () => {
      await visit({}, async (page) => {
        await edit(page);
        assert.equal(await page.locator('main img, main script').count(), 0);
        assert.match(await page.locator('textarea[name=text]').inputValue(), /<\/textarea><img/);
        assert.doesNotMatch(await page.title(), /^owned/);
      });
    });

    await t.test('works at the width of a phone, and without script', async () => {
      await visit({ viewport: { width: 390, height: 844 } }, async (page) => {
        await edit(page);
        assert.equal(await page.evaluate(overflows), false);
        assert.deepEqual(await seriousViolations(page), [], 'axe');
      });
      await visit({ javaScriptEnabled: false }, async (page) => {
        await page.goto('/workflows/team.review');
        await page.getByRole('link', { name: 'Edit team.review.json' }).click();
        const before = readFileSync(file, 'utf8');
        await page.locator('textarea[name=text]').fill(before.replace('"prompt"', '"promt"'));
        await page.getByRole('button', { name: 'Validate' }).click();
        await page.locator('ol.problems li.bad').first().waitFor();
        await page.locator('textarea[name=text]').fill(before.replace('2.0.0', '4.0.0'));
        await page.getByRole('button', { name: 'Review and save' }).click();
        await page.locator('#outcome tr.only-b', { hasText: '4.0.0' }).waitFor();
        await page.getByRole('button', { name: 'Save team.review.json' }).click();
        await page.getByText('Saved.').waitFor();
        assert.equal(readFileSync(file, 'utf8'), before.replace('2.0.0', '4.0.0'), 'line ends and all');
      });
    });
  });
});
