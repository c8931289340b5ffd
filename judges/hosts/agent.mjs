// The agent that tests a host: a whole workflow with a blocked step, a rewind, a new chat and a resume. It acts only
// on what the host shows it, so the run ends only if the text alone leads to the end.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { whileModelling } from './model.mjs';
import { Cells, TOOLS, expect, follow, isComplete, nextCall, timesShown } from './walk.mjs';

export const program = process.env.WORKRAIL_PROGRAM;

const CHAT_MS_MAX = 120_000;
const MOVES_MAX = 40;

/// Runs a host to its end, with its own environment.
export function run(command, args, place, variables) {
  const child = spawn(command, args, {
    cwd: join(place, 'project'),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: join(place, 'home'), ...variables },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (said += piece));
  const late = setTimeout(() => child.kill('SIGKILL'), CHAT_MS_MAX);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(late);
      if (code === 0) resolve(said);
      else reject(new Error(`the host ended with ${code ?? 'no answer in time'}: ${said}`));
    });
  });
}

/// Starts, forgets its notes once, garbles a token, continues, sends a call twice, looks back, and stops in the
/// middle. `passed(check, note)` records a check of the table. `isAside` marks a call whose reply is not counted: the
/// sizes are those of a run without an error and without a repeated call.
function firstChat(passed) {
  let bookmark;
  let step;
  let second;
  let timesError;
  return [
    (shown, tools) => {
      expect(TOOLS.every((own) => tools.some((name) => name.endsWith(own))), `the host offers only ${tools}`);
      passed('lists tools');
      return { tool: 'start_workflow', arguments: { workflowId: 'wr.small_change', goal: 'be judged in a host' } };
    },
    (shown) => {
      expect(/^Run \S+ · .* · step 1 /.test(shown), `the step does not come first:\n${shown}`);
      passed('starts');
      bookmark = shown.match(/stateToken (\S+)/)[1];
      const call = nextCall(shown);
      delete call.arguments.output;
      return call;
    },
    (shown) => {
      expect(shown.includes('MISSING_REQUIRED_NOTES'), `a step without notes is not blocked:\n${shown}`);
      step = follow(shown, 'Read the request.');
      return { tool: step.tool, arguments: { ackToken: step.arguments.ackToken.slice(0, -3) }, isAside: true };
    },
    (shown, tools, raw) => {
      const message = shown.match(/\bTOKEN_\w+: (.*)/)?.[1];
      expect(message, `a garbled token is not an error:\n${shown}`);
      timesError = raw.split(message).length - 1;
      return { ...nextCall(shown), isAside: true };
    },
    (shown) => {
      expect(shown.includes(' · step 1 '), `the error does not lead back to the step:\n${shown}`);
      passed('error leads on', timesError > 1 ? `, but the message is shown ${timesError} times` : '');
      return step;
    },
    (shown) => {
      expect(shown.includes(' · step 2 '), `the second step did not follow:\n${shown}`);
      passed('continues');
      second = shown;
      return { ...step, isAside: true };
    },
    (shown) => {
      expect(shown === second, `the same call has another reply:\n${shown}`);
      passed('replays');
      return { tool: 'continue_workflow', arguments: { stateToken: bookmark } };
    },
    (shown) => {
      expect(shown.includes(' · step 1 '), `the first step is not shown again:\n${shown}`);
      return { text: 'I stop here.' };
    },
  ];
}

/// Knows only the goal.
function secondChat(shown) {
  if (shown === null) return { tool: 'resume_session', arguments: { query: 'judged in a host' } };
  return isComplete(shown) ? { text: 'Done.' } : follow(shown, 'Did what the step says.');
}

const CHECKS = ['lists tools', 'starts', 'error leads on', 'continues', 'replays', 'resumes', 'sees text once'];

/// The version of the host installed in a folder.
export function versionIn(folder) {
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return Object.values(dependencies)[0].match(/\d+\.\d+\.\d+/)[0];
}

/// Tests a host installed in a folder. `chat(place, url, prompt)` runs one chat; `strip(shown)` removes what the host
/// itself adds to a result. With WORKRAIL_HOST_REPORT=1 the bytes shown to the model are printed for each reply.
export async function judge(name, folder, api, chat, strip = (shown) => shown) {
  const cells = new Cells(name, versionIn(folder));
  const place = mkdtempSync(join(tmpdir(), 'workrail-host-'));
  for (const own of ['home', 'project', 'data']) mkdirSync(join(place, own));
  const bytes = [];
  const open = [...CHECKS];
  let moves = 0;
  let mostShown = 0;
  let last = null;
  let lastCall = {};
  const passed = (check, note) => {
    open.splice(open.indexOf(check), 1);
    cells.ok(check, note);
  };
  const looking = (play) => (raw, tools) => {
    expect((moves += 1) < MOVES_MAX, 'the run does not end');
    last = raw === null ? null : strip(raw);
    if (last !== null) {
      if (!lastCall.isAside) bytes.push(Buffer.byteLength(raw));
      if (process.env.WORKRAIL_HOST_REPORT) console.log(`${String(Buffer.byteLength(raw)).padStart(6)}  ${last.split('\n')[0].slice(0, 90)}`);
      expect(!last.startsWith('{'), `the model was shown data in place of text:\n${last}`);
      mostShown = Math.max(mostShown, timesShown(raw));
    }
    lastCall = play(last, tools, raw);
    return lastCall;
  };
  let failure;
  try {
    const script = firstChat(passed);
    const play = (...seen) => script.shift()?.(...seen) ?? { text: 'I stop here.' };
    await whileModelling(api, looking(play), (url) => chat(place, url, 'Work on it with WorkRail.'));
    expect(script.length === 0, `the first chat ended ${script.length} moves too early`);
    await whileModelling(api, looking(secondChat), (url) => chat(place, url, 'Continue the work.'));
    expect(last !== null && isComplete(last), `the run did not end:\n${last}`);
    passed('resumes');
    expect(mostShown === 1, `the step is shown ${mostShown} times`);
    passed('sees text once');
  } catch (error) {
    failure = error;
    cells.failed(open[0], error);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
  const total = bytes.reduce((sum, own) => sum + own, 0);
  const verdict = failure ? '0 passed, 1 failed' : '1 passed, 0 failed';
  console.log(`${name}: ${bytes.length} replies shown, ${total} bytes: ${verdict}`);
  if (failure) {
    console.log(`  ${failure.stack ?? failure}`);
    process.exitCode = 1;
  }
}
