// A scripted model on loopback: answers a host's model API with the tool calls of a script, and keeps what the host
// showed it. It is not a model: it plays an agent, so that a real host can be tested offline.

import { createServer } from 'node:http';

/// Serves the API while `use(url)` runs. `play(shown, tools)` receives what the host showed of the last tool result,
/// or null at the beginning of a chat, the names of the offered tools, and everything given to the model, as the host
/// sent it; it returns `{ tool, arguments }` or `{ text }`.
export async function whileModelling(api, play, use) {
  const failures = [];
  const server = createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      try {
        const path = new URL(request.url, 'http://localhost').pathname;
        const body = Buffer.concat(pieces).toString('utf8');
        if (!api(request.method, path, body, response, play)) {
          response.writeHead(request.method === 'HEAD' ? 200 : 404).end();
        }
      } catch (error) {
        failures.push(error);
        response.writeHead(500).end();
      }
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await use(`http://127.0.0.1:${server.address().port}`);
  } catch (error) {
    throw failures[0] ?? error;
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  if (failures.length > 0) throw failures[0];
}

function json(response, value) {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  return true;
}

function stream(response, events) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  response.end();
  return true;
}

let calls = 0;

/// A tool under the host's name for it: its own, or prefixed with the server's.
const asOffered = (tools, wanted) => tools.find((name) => name === wanted) ?? tools.find((name) => name.endsWith(wanted));

/// Anthropic's Messages API, streamed or not.
export function messages(method, path, body, response, play) {
  if (method !== 'POST') return false;
  if (path.endsWith('/count_tokens')) return json(response, { input_tokens: 1 });
  if (path !== '/v1/messages') return false;
  const asked = JSON.parse(body);
  const tools = (asked.tools ?? []).map((tool) => tool.name);
  // Hosts also ask for titles and summaries, without the tools.
  const isAgent = tools.some((name) => name.endsWith('start_workflow'));
  const move = isAgent ? play(lastToolResult(asked.messages), tools, body) : { text: 'ok' };
  const name = move.tool && asOffered(tools, move.tool);
  if (move.tool && !name) throw new Error(`the host does not offer ${move.tool}: ${tools}`);
  const block = move.tool
    ? { type: 'tool_use', id: `toolu_${(calls += 1)}`, name, input: move.arguments }
    : { type: 'text', text: move.text };
  const stop = move.tool ? 'tool_use' : 'end_turn';
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = {
    id: 'msg_scripted', type: 'message', role: 'assistant', model: asked.model, content: [],
    stop_reason: null, stop_sequence: null, usage,
  };
  if (!asked.stream) return json(response, { ...message, content: [block], stop_reason: stop });
  const start = move.tool ? { ...block, input: {} } : { type: 'text', text: '' };
  const delta = move.tool
    ? { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }
    : { type: 'text_delta', text: block.text };
  return stream(response, [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: start },
    { type: 'content_block_delta', index: 0, delta },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ]);
}

/// What the host shows of the last tool result; null if the chat has none yet.
function lastToolResult(messages) {
  const blocks = messages.flatMap((message) => (Array.isArray(message.content) ? message.content : []));
  const last = blocks.findLast((block) => block.type === 'tool_result');
  if (!last) return null;
  return typeof last.content === 'string' ? last.content : last.content.map((item) => item.text ?? '').join('\n\n');
}

/// OpenAI's Responses API, streamed.
export function responses(method, path, body, response, play) {
  if (method !== 'POST' || !path.endsWith('/responses')) return false;
  const asked = JSON.parse(body);
  const last = asked.input.findLast((item) => item.type === 'function_call_output');
  const move = play(last ? outputText(last.output) : null, offered(asked.tools ?? []), body);
  calls += 1;
  const item = move.tool
    ? {
        type: 'function_call', id: `fc_${calls}`, call_id: `call_${calls}`, status: 'completed',
        ...named(asked.tools ?? [], move.tool), arguments: JSON.stringify(move.arguments),
      }
    : {
        type: 'message', id: `msg_${calls}`, role: 'assistant', status: 'completed',
        content: [{ type: 'output_text', text: move.text, annotations: [] }],
      };
  // A move can report how full the history is, so that the host compacts it.
  const tokens = move.tokens ?? 1;
  const usage = { input_tokens: tokens, output_tokens: 1, total_tokens: tokens + 1, input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
  const whole = { id: `resp_${calls}`, object: 'response', status: 'completed', model: asked.model, output: [item], usage };
  return stream(response, [
    { type: 'response.created', response: { ...whole, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: whole },
  ]);
}

const outputText = (output) =>
  typeof output === 'string' ? output : output.map((part) => part.text ?? '').join('\n\n');

/// The names of all tools, including those in namespaces.
const offered = (tools) => tools.flatMap((tool) => (tool.type === 'namespace' ? offered(tool.tools) : [tool.name ?? tool.type]));

/// A tool's name as the host offers it: alone, or in its server's namespace.
function named(tools, wanted) {
  for (const tool of tools) {
    if (tool.type === 'namespace') {
      const inside = tool.tools.find((own) => own.name.endsWith(wanted));
      if (inside) return { namespace: tool.name, name: inside.name };
    } else if (tool.name?.endsWith(wanted)) {
      return { name: tool.name };
    }
  }
  throw new Error(`the host does not offer ${wanted}: ${JSON.stringify(tools.map((tool) => tool.name ?? tool.type))}`);
}

/// Google's generateContent API, streamed or not.
export function generateContent(method, path, body, response, play) {
  if (method !== 'POST') return false;
  if (path.endsWith(':countTokens')) return json(response, { totalTokens: 1 });
  if (!/:(streamGenerateContent|generateContent)$/.test(path)) return false;
  const asked = JSON.parse(body);
  const tools = (asked.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map((tool) => tool.name);
  // The host also asks for routing and summaries, without the tools.
  const isAgent = tools.some((name) => name.endsWith('start_workflow'));
  const move = isAgent ? play(lastFunctionResponse(asked.contents), tools, body) : { text: '{}' };
  const name = move.tool && asOffered(tools, move.tool);
  if (move.tool && !name) throw new Error(`the host does not offer ${move.tool}: ${tools}`);
  const part = move.tool ? { functionCall: { name, args: move.arguments } } : { text: move.text };
  const answer = {
    candidates: [{ index: 0, finishReason: 'STOP', content: { role: 'model', parts: [part] } }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  };
  if (path.endsWith(':generateContent')) return json(response, answer);
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${JSON.stringify(answer)}\n\n`);
  return true;
}

function lastFunctionResponse(contents) {
  const last = contents.flatMap((content) => content.parts ?? []).findLast((part) => part.functionResponse);
  if (!last) return null;
  const { response } = last.functionResponse;
  return response.output ?? response.error ?? JSON.stringify(response);
}
