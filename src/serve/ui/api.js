// Requests to the server: the key, errors in OpenAI's shape, answers as server-sent events.

const kKeyName = "ingot.key";
const kMaxLine = 4 << 20;  // a line longer than this is not an event of ours

export class ApiError extends Error {
  constructor(message, status = 0, retryAfter = null) {
    super(message);
    this.status = status;  // 0: no answer at all
    this.retryAfter = retryAfter;
  }
}

let keyInMemory = "";

export function apiKey() {
  try {
    return sessionStorage.getItem(kKeyName) || keyInMemory;
  } catch {
    return keyInMemory;
  }
}

export function setApiKey(key) {
  keyInMemory = key;
  try {
    if (key) sessionStorage.setItem(kKeyName, key);
    else sessionStorage.removeItem(kKeyName);
  } catch {
    // Kept in memory only.
  }
}

async function errorOf(response) {
  let message = "";
  try {
    const body = await response.json();
    message = body.error?.message || "";
  } catch {
    // Not JSON: a proxy's page, say.
  }
  const after = Number(response.headers.get("Retry-After"));
  return new ApiError(message || `The server answered ${response.status} ${response.statusText}`.trim(), response.status,
    Number.isFinite(after) && after > 0 ? after : null);
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (apiKey()) headers.Authorization = `Bearer ${apiKey()}`;
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "omit", ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached.");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function engineFacts() {
  const response = await request("v1/engine", { signal: AbortSignal.timeout(10000) });
  return response.json();
}

// The data of each server-sent event of a body.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      if (rest.length > kMaxLine) throw new ApiError("The server sent a line that is too long.");
      const lines = rest.split("\n");
      rest = lines.pop();
      for (const raw of lines) {
        const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
        if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function partOf(event) {
  if (event.error) throw new ApiError(event.error.message || "The server failed in the middle of the answer.", 500);
  const choice = event.choices?.[0];
  const delta = choice?.delta ?? {};
  return {
    content: typeof delta.content === "string" ? delta.content : "",
    reasoning: typeof delta.reasoning_content === "string" ? delta.reasoning_content : "",
    calls: Array.isArray(delta.tool_calls) ? delta.tool_calls : [],
    finish: choice?.finish_reason ?? null,
    usage: event.usage ?? null,
  };
}

// Streams an answer: parts {content, reasoning, calls, finish, usage}. Throws ApiError, or AbortError after signal.
export async function* chat(body, signal) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  let finished = false;
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const part = partOf(JSON.parse(data));
      finished ||= part.finish !== null;
      yield part;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError("The connection was lost before the answer was complete.");
  }
  if (!finished) throw new ApiError("The connection ended before the answer was complete.");
}
