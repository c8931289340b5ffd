// The agent that leaves the rails inside a real host: it stops early, approves itself, forgets, and works on in a new chat. What the
// model is shown, and what the store holds afterwards, say whether the hooks held.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { whileModelling } from './model.mjs';
import { expect, follow } from './walk.mjs';

const MOVES_MAX = 30;
const WORKFLOW = {
  id: 'team.rails', name: 'Rails', version: '1.0.0', description: 'Two steps.',
  steps: [
    { id: 'plan', title: 'Plan the change', prompt: 'Write the plan. MARK-OF-PLAN.', edits: { allow: [] } },
    { id: 'build', title: 'Make the change', prompt: 'Edit the file. MARK-OF-BUILD.' },
  ],
};

/// The text of a request as the model reads it: JSON within JSON has its quotes back.
const plain = (body) => body.replaceAll('\\n', '\n').replaceAll('\\"', '"').replaceAll('\\\\', '\\');

/// What was said last, for the message of a failure; tools come after it in some requests.
const end = (text) => text.slice(0, text.indexOf('"tools":[')).slice(-3000);

/// One chat with a script of moves; `watch(body)` sees every request before the move is made.
function scripted(moves, seen) {
  let made = 0;
  return (shown, tools, body) => {
    const text = plain(body);
    // The subagent's own turn: it does nothing.
    if (text.includes('TASK-OF-SUBAGENT') && !text.includes('MARK-OF-PLAN')) return { text: 'The subagent is done.' };
    seen.push(text);
    expect((made += 1) < MOVES_MAX, 'the chat does not end');
    const move = moves.shift();
    return (typeof move === 'function' ? move(shown, text) : move) ?? { text: 'I end here.' };
  };
}

/// Judges the hooks in a host. `host` has `chat(place, url, prompt, kind)` with kind `new`, `again` or `compact`, `install(place)`,
/// the names of its tools, and what it cannot do.
export async function judgeRails(name, api, host) {
  const place = mkdtempSync(join(tmpdir(), 'workrail-rails-'));
  for (const own of ['home', 'project', 'data', 'workflows']) mkdirSync(join(place, own));
  writeFileSync(join(place, 'workflows', 'rails.json'), JSON.stringify(WORKFLOW));
  host.install(place);
  let label;
  const facts = [];
  const early = join(place, 'project', 'early.txt');
  // What is played after a hold, in hosts that can hold.
  const held = (move) => (host.endsWithTurn ? [] : [move]);
  const holds = (fact, condition, evidence) => {
    expect(condition, `${fact}: no\n${evidence}`);
    facts.push(fact);
  };
  const talk = async (kind, prompt, moves) => {
    const seen = [];
    await whileModelling(api, scripted(moves, seen), (url) => host.chat(place, url, prompt, kind));
    expect(moves.length === 0, `the ${kind} chat ended ${moves.length} moves too early`);
    return seen;
  };
  let failure;
  try {
    let step;
    const moves = [
      { tool: 'start_workflow', arguments: { workflowId: 'team.rails', goal: 'stay on the rails' } },
      (shown) => {
        expect(shown.includes('MARK-OF-PLAN'), `the run did not start:\n${shown}`);
        label = shown.match(/Run (\S+) /)[1];
        step = shown;
        return host.shell(`workrail approve ${label}`);
      },
      (shown) => {
        holds('refuses to let the agent approve', shown.includes('is for the user'), shown);
        return host.edit ? host.edit(early, 'too early') : host.shell('exit 3');
      },
      ...(host.edit
        ? [
            (shown) => {
              const refused = shown.includes('allows no edits') && !existsSync(early);
              holds('refuses an edit that its step does not allow', refused, shown);
              return host.shell('exit 3');
            },
          ]
        : []),
      ...(host.subagent ? [() => host.subagent('TASK-OF-SUBAGENT')] : []),
      { text: 'I stop early.' },
      ...held((shown, text) => {
        const said = `WorkRail run ${label} (team.rails) is not complete`;
        holds('holds a turn that ends early', text.includes(said), end(text));
        return { text: 'I stop all the same.' };
      }),
    ];
    const first = await talk('new', 'Work on it with WorkRail.', [...moves]);
    // A second hold would have asked the model once more.
    if (!host.endsWithTurn) holds('does not hold it twice', first.length === moves.length, end(first.at(-1)));
    const again = await talk('again', 'Go on.', [
      (shown, text) => {
        const given = `This chat works on WorkRail run ${label}`;
        holds('gives the step back when a chat is resumed', text.includes(given), end(text));
        return follow(step, 'Planned.');
      },
      (shown) => {
        expect(shown.includes('MARK-OF-BUILD'), `the run did not advance:\n${shown}`);
        return { text: 'I stop early again.' };
      },
      ...held((shown, text) => {
        const said = 'its step "Make the change" is pending';
        holds('holds the next step as well', text.includes(said), end(text));
        return { text: 'I stop.' };
      }),
    ]);
    expect(again.length > 0, 'the second chat said nothing');
    if (host.compacts) {
      await talk('compact', '/compact', []);
      const after = await talk('again', 'Go on.', [{ text: 'I only look.' }]);
      const text = after.at(-1);
      const forgot = !text.includes('MARK-OF-PLAN');
      holds('gives the step back after compaction', forgot && text.includes('here it is as recorded'), end(text));
    }
    const fresh = await talk('new', 'Something new.', [{ text: 'Hello.' }]);
    const left = `WorkRail run ${label} (team.rails) was started in this folder and is not complete`;
    holds('tells a new chat what is unfinished here', fresh.at(-1).includes(left), end(fresh.at(-1)));
    const log = eventsIn(place);
    const seen = log.filter((event) => event.kind === 'evidence_recorded').map((event) => event.data.evidence);
    const has = (kind, test) => seen.some((own) => own.kind === kind && test(own));
    const refused = has('command_refused', (own) => own.command.includes('approve'));
    const ran = has('command_run', (own) => own.command === 'exit 3' && (!host.saysExitCodes || own.exitCode === 3));
    const edited = !host.edit || has('edit_refused', (own) => JSON.stringify(own).includes('early.txt'));
    const delegated = !host.subagent || has('subagent_started', () => true);
    holds('records what it saw as evidence', refused && ran && edited && delegated, JSON.stringify(seen));
    holds('records no approval', log.every((event) => event.kind !== 'approval_recorded'), JSON.stringify(log));
  } catch (error) {
    failure = error;
  } finally {
    if (!process.env.WORKRAIL_HOST_KEEP) rmSync(place, { recursive: true, force: true });
    else console.log(place);
  }
  for (const fact of facts) console.log(`  ${name} ${fact}`);
  console.log(`${name} with hooks: ${facts.length} held: ${failure ? '0 passed, 1 failed' : '1 passed, 0 failed'}`);
  if (failure) {
    console.log(`  ${failure.stack ?? failure}`);
    process.exitCode = 1;
  }
}

/// Every event of the one session in the store.
function eventsIn(place) {
  const sessions = join(place, 'data', 'sessions');
  const folders = readdirSync(sessions).filter((name) => name.startsWith('sess_'));
  const files = folders.flatMap((name) => {
    const folder = join(sessions, name, 'events');
    return readdirSync(folder).filter((file) => file.endsWith('.jsonl')).sort().map((file) => join(folder, file));
  });
  return files.flatMap((file) => readFileSync(file, 'utf8').trim().split('\n')).map((line) => JSON.parse(line));
}

/// What the server and the hooks are told.
export const variables = (place) => ({
  WORKRAIL_DATA_DIR: join(place, 'data'),
  WORKFLOW_STORAGE_PATH: join(place, 'workflows'),
});
