// One walk through a workflow, the same for every client: each check of it is a cell of the table that `judges/table`
// prints. The walk acts only on the text that a client gives its model. `walk.py` is the same in Python.

const STEPS_MAX = 20;
export const TOOLS = ['list_workflows', 'start_workflow', 'continue_workflow', 'checkpoint_workflow', 'resume_session', 'read_run'];
const GOAL = 'be judged';
/// A line of the first step. A model must read it once in each reply that shows the step.
const PROMPT_LINE = 'Find out what the change is for before you edit anything.';

export function expect(condition, what) {
  if (!condition) throw new Error(what);
}

/// Prints `cell: CLIENT | VERSION | CHECK | RESULT` for each check.
export class Cells {
  constructor(client, version) {
    this.client = client;
    this.version = version;
  }

  ok(check, note = '') {
    this.print(check, `ok${note}`);
  }

  failed(check, error) {
    this.print(check, `no: ${error.message.split('\n')[0].slice(0, 80)}`);
  }

  print(check, result) {
    console.log(`cell: ${this.client} | ${this.version} | ${check} | ${result.replaceAll('|', '/')}`);
  }

  /// Runs one check; a failure is printed and thrown again.
  async check(name, run) {
    try {
      const result = await run();
      this.ok(name);
      return result;
    } catch (error) {
      this.failed(name, error);
      throw error;
    }
  }
}

/// The call at the end of a text, as a model reads it.
export function nextCall(text) {
  const call = [...text.matchAll(/(\w+_\w+) with:?\s+(\{.*\})/g)].at(-1);
  expect(call, `no next call in what the model was shown:\n${text}`);
  return { tool: call[1], arguments: JSON.parse(call[2]) };
}

/// Makes the suggested call, with the agent's own words.
export function follow(text, notes) {
  const call = nextCall(text);
  if (call.arguments.output) call.arguments.output.notesMarkdown = notes;
  return call;
}

/// A reply about a run without a pending step.
export const isComplete = (text) => /^Run \S+ · /.test(text) && !text.split('\n')[0].includes(' · step ');

/// How often a reply shows the first step; 0 if it is about another step.
export const timesShown = (whole) => whole.split(PROMPT_LINE).length - 1;

/// The text of a result, and everything that a model is given of it.
export function blocks(result) {
  const text = result.content.map((item) => item.text).join('\n\n');
  return { text, whole: result.structuredContent ? text + JSON.stringify(result.structuredContent) : text };
}

/// `connect()` opens a client: `names` of its tools, `call(tool, args)`, which returns what `blocks` does,
/// and `close()`.
export async function walk(cells, connect) {
  const counts = [];
  const counted = (client) => async (call) => {
    const { text, whole } = await client.call(call.tool, call.arguments);
    if (timesShown(text) > 0) counts.push(timesShown(whole));
    return text;
  };

  const first = await connect();
  let call = counted(first);
  try {
    await cells.check('lists tools', () => {
      expect(TOOLS.every((name) => first.names.includes(name)), `only ${first.names}`);
    });
    let text = await cells.check('starts', async () => {
      const text = await call({ tool: 'start_workflow', arguments: { workflowId: 'wr.small_change', goal: GOAL } });
      expect(/^Run \S+ · .* · step 1 /.test(text), `the step does not come first: ${text}`);
      return text;
    });
    text = await cells.check('error leads on', async () => {
      const { tool, arguments: args } = nextCall(text);
      const error = await call({ tool, arguments: { ackToken: args.ackToken.slice(0, -3) } });
      expect(error.startsWith('TOKEN_'), `the error does not come first: ${error}`);
      const again = await call(nextCall(error));
      expect(again.includes(' · step 1 '), `the error does not lead back to the step: ${again}`);
      return again;
    });
    const done = await cells.check('continues', async () => {
      const withoutNotes = nextCall(text);
      delete withoutNotes.arguments.output;
      const blocked = await call(withoutNotes);
      expect(blocked.includes('MISSING_REQUIRED_NOTES'), `a step without notes is not blocked: ${blocked}`);
      const step = follow(blocked, 'Did what the step says.');
      const next = await call(step);
      expect(next.includes(' · step 2 '), `the second step does not follow: ${next}`);
      return { step, next };
    });
    await cells.check('replays', async () => {
      const again = await call(done.step);
      expect(again === done.next, `the same call has another reply: ${again}`);
    });
  } finally {
    await first.close();
  }

  const second = await connect();
  call = counted(second);
  try {
    await cells.check('resumes', async () => {
      let text = await call({ tool: 'resume_session', arguments: { query: GOAL } });
      for (let step = 0; step < STEPS_MAX && !isComplete(text); step += 1) {
        text = await call(follow(text, 'Did what the step says.'));
      }
      expect(isComplete(text), 'the run does not end');
    });
  } finally {
    await second.close();
  }
  await cells.check('sees text once', () => {
    expect(counts.length > 0 && counts.every((count) => count === 1), `the step is shown ${Math.max(...counts)} times`);
  });
}
