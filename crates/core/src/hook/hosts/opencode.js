// Calls `workrail hook opencode EVENT` and does what it answers. This plugin makes no decisions of its own, and no failure
// in it stops opencode.

import { spawn } from 'node:child_process';

const program = "PROGRAM";
const ANSWER_MS_MAX = 5000;

function ask(event, input) {
  return new Promise((resolve) => {
    const child = spawn(program, ['hook', 'opencode', event], { stdio: ['pipe', 'pipe', 'ignore'] });
    const late = setTimeout(() => child.kill(), ANSWER_MS_MAX);
    let said = '';
    child.stdout.on('data', (piece) => (said += piece));
    child.stdin.on('error', () => {});
    child.on('error', () => resolve({}));
    child.on('close', () => {
      clearTimeout(late);
      try {
        resolve(JSON.parse(said));
      } catch {
        resolve({});
      }
    });
    child.stdin.end(JSON.stringify(input));
  });
}

export const WorkRail = async ({ client, directory }) => {
  // The context for each chat, added to every request until the chat has used a tool. The first request may be for its title.
  const told = new Map();
  // A subagent works in a chat of its own; what it does belongs to the chat that started it.
  const parents = new Map();
  const of = (id) => (parents.has(id) ? { session: parents.get(id), agent: id, directory } : { session: id, directory });
  return {
    'tool.execute.before': async (input, output) => {
      const { deny } = await ask('tool.execute.before', { ...of(input.sessionID), tool: input.tool, args: output.args });
      if (deny) throw new Error(deny);
    },
    'tool.execute.after': async (input, output) => {
      told.set(input.sessionID, {});
      const exit = output.metadata?.exit;
      const shown = output.output ?? output.content;
      await ask('tool.execute.after', { ...of(input.sessionID), tool: input.tool, args: input.args, output: shown, exit });
    },
    'experimental.chat.system.transform': async (input, output) => {
      const session = input.sessionID;
      if (!session || parents.has(session)) return;
      if (!told.has(session)) told.set(session, ask('chat.system', { session, directory }));
      const { context } = await told.get(session);
      if (context) output.system.push(context);
    },
    'experimental.session.compacting': async (input, output) => {
      const { context } = await ask('session.compacting', { session: input.sessionID, directory });
      if (context) output.context.push(context);
    },
    event: async ({ event }) => {
      const { info } = event.properties ?? {};
      if (event.type === 'session.created' && info?.parentID) {
        parents.set(info.id, parents.get(info.parentID) ?? info.parentID);
        await ask('session.created', { session: parents.get(info.id), directory, title: info.title });
      }
      // The summary may have lost the step, so it is sent again.
      if (event.type === 'session.compacted') told.delete(event.properties.sessionID);
      if (event.type !== 'session.idle' || parents.has(event.properties.sessionID)) return;
      const session = event.properties.sessionID;
      const { prompt } = await ask('session.idle', { session, directory });
      if (prompt) await client.session.prompt({ path: { id: session }, body: { parts: [{ type: 'text', text: prompt }] } });
    },
  };
};
