// A private home for the program: its folders, an MCP client, and a console.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const program = process.env.WORKRAIL_PROGRAM;

export class Home {
  constructor() {
    this.root = mkdtempSync(join(tmpdir(), 'workrail-browser-'));
    this.data = join(this.root, 'data');
    for (const folder of ['home', 'data', 'workflows', 'project']) mkdirSync(join(this.root, folder));
    // The whole environment: nothing of the user who runs the tests reaches the program.
    this.variables = {
      PATH: '/usr/bin:/bin',
      HOME: join(this.root, 'home'),
      WORKRAIL_DATA_DIR: this.data,
      WORKFLOW_STORAGE_PATH: join(this.root, 'workflows'),
      CLAUDE_PROJECT_DIR: join(this.root, 'project'),
      WORKRAIL_LOG: 'error',
    };
    this.started = [];
  }

  workflow(definition) {
    writeFileSync(join(this.root, 'workflows', `${definition.id}.json`), JSON.stringify(definition));
  }

  start(args, stdio) {
    const child = spawn(program, args, { cwd: join(this.root, 'project'), env: this.variables, stdio });
    const ended = new Promise((resolve) => child.once('close', resolve));
    this.started.push({ child, ended });
    return { child, ended, lines: createInterface({ input: child.stdout }) };
  }

  async client() {
    const client = new Client(this.start(['mcp'], ['pipe', 'pipe', 'inherit']));
    const clientInfo = { name: 'browser-tests', version: '1' };
    await client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    client.send({ method: 'notifications/initialized' });
    return client;
  }

  /// Starts a console; resolves with the address that admits one browser.
  async console() {
    const { child, lines, ended } = this.start(['console', '--port', '0', '--no-open'], ['ignore', 'pipe', 'pipe']);
    // Printed at every start.
    const usual = /^(The address works once|Opened)\./;
    createInterface({ input: child.stderr }).on('line', (line) => usual.test(line) || console.error(line));
    return new Promise((resolve, reject) => {
      ended.then((code) => reject(new Error(`the console ended with ${code}`)));
      lines.on('line', (line) => {
        const address = line.match(/^Console: (http:\/\/localhost:\d+\/open\?code=\S+)$/)?.[1];
        if (address) resolve(address);
      });
    });
  }

  async remove() {
    for (const { child } of this.started) child.kill('SIGTERM');
    await Promise.all(this.started.map(({ ended }) => ended));
    rmSync(this.root, { recursive: true });
  }
}

class Client {
  constructor({ child, ended, lines }) {
    this.child = child;
    this.waiting = new Map();
    this.nextId = 1;
    lines.on('line', (line) => {
      const message = JSON.parse(line);
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) waiting?.reject(new Error(JSON.stringify(message.error)));
      else waiting?.resolve(message.result);
    });
    ended.then((code) => {
      for (const { reject } of this.waiting.values()) reject(new Error(`the server ended with ${code}`));
    });
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  request(method, params) {
    const id = this.nextId;
    this.nextId += 1;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.send({ id, method, params });
    });
  }

  /// Calls a tool; returns the data of its reply, with the whole text that an agent reads.
  async call(name, args) {
    const result = await this.request('tools/call', { name, arguments: args });
    const text = result.content.map((item) => item.text ?? '').join('\n\n');
    if (result.isError) throw new Error(text);
    return { ...result._meta['workrail/reply'], text };
  }

  begin(workflowId, goal) {
    return this.call('start_workflow', { workflowId, goal });
  }

  /// Makes the next call of a reply. `change` edits its arguments.
  next(reply, change = () => {}) {
    const { tool, arguments: suggested } = reply.nextCall;
    const args = answered(suggested);
    change(args);
    return this.call(tool, args);
  }
}

/// The arguments with an answer in place of every placeholder; of several values the last, which ends a loop.
function answered(value) {
  if (Array.isArray(value)) return value.map(answered);
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, own]) => [key, answered(own)]));
  }
  if (typeof value !== 'string' || !/^<.*>$/s.test(value)) return value;
  const choices = value.match(/^<one of: (.*)>$/)?.[1];
  if (choices) return choices.split(' | ').at(-1);
  if (value === '<a number>') return 1;
  if (value === '<true or false, without quotes>') return false;
  return 'The budget is shared by all callers; the limit holds per minute, and the tests cover both sides of it.';
}
