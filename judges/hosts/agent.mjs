// The agent that judges a host: a whole workflow with a blocked step, a rewind, a new chat and a resume. It acts only on
// what the host shows it, so the run ends only if the text leads on by itself.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { whileModelling } from './model.mjs';

export const program = process.env.WORKRAIL_PROGRAM;

const CHAT_MS_MAX = 120_000;
const MOVES_MAX = 40;

function expect(condition, what) {
  if (!condition) throw new Error(what);
}

/// Runs a host to its end, with an environment of its own.
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

/// The call that a text ends with, as a model reads it.
function nextCall(shown) {
  const call = [...shown.matchAll(/(\w+_\w+) with:?\s+(\{.*\})/g)].at(-1);
  if (!call) throw new Error(`no next call in what the model was shown:\n${shown}`);
  return { tool: call[1], arguments: JSON.parse(call[2]) };
}

/// Makes the call that was shown, with words of the agent's own.
function follow(shown, notes) {
  const call = nextCall(shown);
  if (call.arguments.output) call.arguments.output.notesMarkdown = notes;
  return call;
}

/// A reply about a run without a pending step.
const isComplete = (shown) => /^Run \S+ · /.test(shown) && !shown.split('\n')[0].includes(' · step ');

/// Starts, forgets its notes once, goes on, looks back, and stops in the middle.
function firstChat() {
  let bookmark;
  return [
    () => ({ tool: 'start_workflow', arguments: { workflowId: 'wr.small_change', goal: 'be judged in a host' } }),
    (shown) => {
      expect(/^Run \S+ · /.test(shown), `the step does not come first:\n${shown}`);
      bookmark = shown.match(/stateToken (\S+)/)[1];
      const call = nextCall(shown);
      delete call.arguments.output;
      return call;
    },
    (shown) => {
      expect(shown.includes('MISSING_REQUIRED_NOTES'), `a step without notes is not blocked:\n${shown}`);
      return follow(shown, 'Read the request.');
    },
    (shown) => {
      expect(shown.includes('step 2'), `the second step did not follow:\n${shown}`);
      return { tool: 'continue_workflow', arguments: { stateToken: bookmark } };
    },
    (shown) => {
      expect(shown.includes('step 1'), `the first step is not shown again:\n${shown}`);
      return { text: 'I stop here.' };
    },
  ];
}

/// Knows nothing but the goal.
function secondChat(shown) {
  if (shown === null) return { tool: 'resume_session', arguments: { query: 'judged in a host' } };
  return isComplete(shown) ? { text: 'Done.' } : follow(shown, 'Did what the step says.');
}

/// Judges a host. `chat(place, url, prompt)` runs one chat; `strip(shown)` takes off what the host itself adds to a
/// result. With WORKRAIL_HOST_REPORT=1 the bytes that the model was shown are printed for each reply.
export async function judge(name, api, chat, strip = (shown) => shown) {
  const place = mkdtempSync(join(tmpdir(), 'workrail-host-'));
  for (const folder of ['home', 'project', 'data']) mkdirSync(join(place, folder));
  const bytes = [];
  let last = null;
  const looking = (play) => (raw) => {
    expect(bytes.length < MOVES_MAX, 'the run does not end');
    last = raw === null ? null : strip(raw);
    if (last !== null) {
      bytes.push(Buffer.byteLength(raw));
      if (process.env.WORKRAIL_HOST_REPORT) console.log(`${String(bytes.at(-1)).padStart(6)}  ${last.split('\n')[0].slice(0, 90)}`);
      expect(!last.startsWith('{'), `the model was shown data in place of text:\n${last}`);
    }
    return play(last);
  };
  let failure;
  try {
    const moves = firstChat();
    const play = (shown) => moves.shift()?.(shown) ?? { text: 'I stop here.' };
    await whileModelling(api, looking(play), (url) => chat(place, url, 'Work on it with WorkRail.'));
    expect(moves.length === 0, `the first chat ended ${moves.length} moves too early`);
    await whileModelling(api, looking(secondChat), (url) => chat(place, url, 'Continue the work.'));
    expect(last !== null && isComplete(last), `the run did not end:\n${last}`);
  } catch (error) {
    failure = error;
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
