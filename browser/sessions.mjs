// Sessions of a busy day, made through MCP.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const STEPS_MAX = 60;

const RELEASE = {
  id: 'team.release',
  name: 'Release',
  description: 'Release a service; a person approves the plan.',
  version: '1.0.0',
  steps: [
    {
      id: 'plan', title: 'Plan the release', prompt: 'Plan the release.',
      requireConfirmation: { kind: 'human_approval' },
    },
    { id: 'deploy', title: 'Deploy', prompt: 'Deploy what was approved.' },
  ],
};

const MIGRATION = {
  id: 'team.migration',
  name: 'Migration',
  description: 'Migrate a table; a person names the branch.',
  version: '1.0.0',
  steps: [
    {
      id: 'scope', title: 'Find the scope', prompt: 'Find the scope.',
      userDependencies: [{
        reason: 'needs_user_choice', choiceKind: 'scope_boundary', contextKey: 'targetBranch',
        description: 'Which branch gets the migration?',
      }],
    },
    { id: 'migrate', title: 'Migrate', prompt: 'Migrate the table.' },
  ],
};

const ROUNDS = {
  id: 'team.rounds',
  name: 'Rounds',
  description: 'Repeats a small change for every module.',
  version: '1.0.0',
  steps: [
    {
      id: 'design', title: 'Design the interface', prompt: 'Design it.',
      runCondition: { var: 'size', equals: 'large' },
    },
    {
      id: 'modules', type: 'loop', title: 'Modules', loop: { type: 'for', count: 6, maxIterations: 6 },
      body: [
        { id: 'change', title: 'Change the module', prompt: 'Change it.' },
        { id: 'check', title: 'Check the module', prompt: 'Check it.' },
      ],
    },
    { id: 'report', title: 'Report', prompt: 'Report.' },
  ],
};

const PLAN = `## Plan

1. Raise the retry budget from **3** to **5** per minute.
2. Deploy to one region first.

| region | when |
|---|---|
| eu-1 | Monday, 09:00 |
| us-1 | Tuesday, 09:00 |

Way back: \`deploy --revert\`.`;

export function defineWorkflows(home) {
  home.workflow(RELEASE);
  home.workflow(MIGRATION);
  home.workflow(ROUNDS);
}

/// A run in the middle of a long loop, with a skipped step.
export async function inALoop(client, goal) {
  let reply = await client.begin(ROUNDS.id, goal);
  for (let step = 0; step < 9; step += 1) reply = await client.next(reply);
  return reply;
}

/// A run that waits for an approval.
export async function waitsForApproval(client, goal) {
  const first = await client.begin(RELEASE.id, goal);
  return blocked(await client.next(first, (args) => { args.output = { notesMarkdown: PLAN }; }));
}

/// A run that waits for an answer.
export async function waitsForAnswer(client, goal) {
  return blocked(await nextWithoutAnswer(client, await client.begin(MIGRATION.id, goal)));
}

/// Makes the next call without the context that could contain the answer.
export function nextWithoutAnswer(client, reply) {
  return client.next(reply, (args) => { delete args.context; });
}

/// A run whose last attempt was refused for lack of notes.
export async function waitsForAgent(client, goal) {
  const first = await client.begin('wr.small_change', goal);
  return blocked(await client.next(first, (args) => { args.output = {}; }));
}

export async function completes(client, workflow, goal) {
  let reply = await client.begin(workflow, goal);
  for (let step = 0; !reply.isComplete; step += 1) {
    if (step === STEPS_MAX) throw new Error(`${workflow} does not end: ${reply.text}`);
    reply = await client.next(reply);
  }
  return reply;
}

/// A run that continued twice from its first step.
export async function twoBranches(client, goal) {
  const first = await client.begin('wr.small_change', goal);
  await client.next(await client.next(first));
  const again = await client.call('continue_workflow', { run: first.run.label, stateToken: first.stateToken });
  return client.next(again, (args) => { args.output = { notesMarkdown: 'The second design.' }; });
}

/// Text that does not wrap in a narrow window.
export async function wideText(client) {
  const word = 'https/'.repeat(40);
  const row = `| ${Array.from({ length: 12 }, (_, at) => `column ${at}`).join(' | ')} |`;
  const table = `${row}\n${row.replaceAll(/column \d+/g, '---')}\n${row}`;
  const notes = `${word}\n\n\`\`\`\n${word}\n\`\`\`\n\n${table}`;
  const first = await client.begin(RELEASE.id, `Shorten ${word}`);
  return blocked(await client.next(first, (args) => {
    args.output = { notesMarkdown: notes, artifacts: [{ kind: 'team.wide', value: word }] };
    args.context = { wide: word };
  }));
}

function blocked(reply) {
  if (reply.kind !== 'blocked') throw new Error(`not blocked: ${reply.text}`);
  return reply;
}

/// One run in every state; returns the address of every page.
export async function busyDay(home) {
  defineWorkflows(home);
  const client = await home.client();
  const approval = await waitsForApproval(client, 'Release the retry budget to every region');
  await waitsForAnswer(client, 'Move the sessions table to the new schema');
  const refused = await waitsForAgent(client, 'Fix the typo in the sign-in page');
  const done = await completes(client, 'wr.small_change', 'Share one retry budget between all callers');
  const running = await client.next(await client.begin('wr.coding_task', 'Add a rate limit to the public API'));
  const inner = await client.call('start_workflow', {
    workflowId: 'wr.small_change', goal: 'Extract the limiter first', parent: running.ackToken,
  });
  await client.next(inner);
  const forked = await twoBranches(client, 'Try two designs of the limiter');
  const looping = await inALoop(client, 'Use the new clock in every module');
  const wide = await wideText(client);
  const damaged = await client.begin('wr.small_change', 'A session with a damaged manifest');
  writeFileSync(join(home.data, 'sessions', damaged.run.sessionId, 'manifest.jsonl'), 'damaged\n');
  const pages = {
    now: '/',
    'needs-you': '/?status=needs_me',
    running: '/?status=running',
    finished: '/?status=finished',
    blocked: '/?status=blocked',
    damaged: '/?status=damaged',
    search: '/search?q=budget',
    'run-approval': `/run/${approval.run.runId}`,
    'run-refused': `/run/${refused.run.runId}`,
    'run-running': `/run/${running.run.runId}`,
    'run-loop': `/run/${looping.run.runId}`,
    'run-loop-open': `/run/${looping.run.runId}?open=all`,
    'run-forked': `/run/${forked.run.runId}`,
    'run-wide': `/run/${wide.run.runId}`,
    'compare-branches': `/compare?a=${forked.run.runId}&b=${forked.run.runId}%40b`,
    'compare-runs': `/compare?a=${wide.run.runId}&b=${approval.run.runId}`,
    'compare-choices': `/compare?a=${wide.run.runId}`,
    'run-complete': `/run/${done.run.runId}`,
    session: `/session/${approval.run.sessionId}`,
    'session-nested': `/session/${running.run.sessionId}`,
    'session-damaged': `/session/${damaged.run.sessionId}`,
    workflows: '/workflows',
    workflow: '/workflows/wr.coding_task',
    settings: '/settings',
    'settings-checks': '/settings/checks',
    'settings-sources': '/settings/sources',
    'settings-cleanup': '/settings/cleanup',
    'settings-keys': '/settings/keys',
    'settings-clients': '/settings/clients',
    'settings-health': '/settings/health',
    logs: '/logs',
  };
  return { client, pages };
}
