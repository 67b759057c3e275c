// Answers under way: each writes into its message as it comes, whatever conversation is shown meanwhile.
import { ApiError, chat } from "./api.js";
import { addCallDelta } from "./calls.js";
import { addMessage, requestMessages } from "./conversation.js";

export class Answers {
  #controls = new Map();  // conversation's id → AbortController

  // hooks: grown(conversation, node), ended(conversation, node), needKey(wasWrong) → promise of whether one was given
  constructor(hooks) {
    this.hooks = hooks;
  }

  isBusy(id) {
    return this.#controls.has(id);
  }

  get anyBusy() {
    return this.#controls.size > 0;
  }

  stop(id) {
    this.#controls.get(id)?.abort();
  }

  // Adds an answer below `parent` and fills it. REQUIRES: !isBusy(conversation.id).
  async begin(conversation, parent, fields) {
    const messages = requestMessages(conversation, parent);
    const node = addMessage(conversation, parent, "assistant");
    node.state = "live";
    const control = new AbortController();
    this.#controls.set(conversation.id, control);
    this.hooks.grown(conversation, node);
    try {
      await this.#fill(conversation, node, { ...fields, messages }, control.signal);
      node.state = "done";
    } catch (error) {
      node.state = error.name === "AbortError" ? "stopped" : "failed";
      if (node.state === "failed") node.error = describe(error);
    } finally {
      this.#controls.delete(conversation.id);
      conversation.updated = Date.now();
      this.hooks.ended(conversation, node);
    }
  }

  async #fill(conversation, node, body, signal) {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#stream(conversation, node, body, signal);
        return;
      } catch (error) {
        if (error.status !== 401 || !(await this.hooks.needKey(attempt > 0))) throw error;
      }
    }
  }

  async #stream(conversation, node, body, signal) {
    const begun = performance.now();
    let first = 0;
    let parts = 0;
    for await (const part of chat(body, signal)) {
      const now = performance.now();
      if (part.content || part.reasoning || part.calls.length) {
        first ||= now;
        parts += 1;
      }
      if (part.reasoning) node.thought_ms = now - first;
      node.content += part.content;
      node.reasoning += part.reasoning;
      for (const delta of part.calls) addCallDelta((node.calls ??= []), delta);
      if (part.finish) node.finish = part.finish;
      const tokens = part.usage?.completion_tokens ?? parts;
      node.stats = { tokens, first_ms: (first || now) - begun, rest_ms: now - (first || now), prompt: part.usage?.prompt_tokens ?? null };
      this.hooks.grown(conversation, node);
    }
  }
}

function describe(error) {
  if (!(error instanceof ApiError)) return `Something went wrong in this page: ${error.message}`;
  if (error.status === 401) return "The server needs an API key.";
  if (error.status === 429 || error.status === 503) {
    const when = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : " Try again in a moment.";
    return `The server is busy: ${error.message.replace(/\.?$/, ".")}${when}`;
  }
  return error.message;
}

// "132 tokens · 41.2 tokens/s · first after 0.12 s"
export function statsText(stats) {
  if (!stats || !stats.tokens) return "";
  const parts = [`${stats.tokens.toLocaleString("en")} token${stats.tokens === 1 ? "" : "s"}`];
  if (stats.tokens >= 8 && stats.rest_ms > 0) parts.push(`${(((stats.tokens - 1) * 1000) / stats.rest_ms).toFixed(1)} tokens/s`);
  parts.push(`first after ${(stats.first_ms / 1000).toFixed(2)} s`);
  return parts.join(" · ");
}
