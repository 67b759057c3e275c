// A conversation as a tree: an edited message or a second answer is a branch beside the first, and nothing is lost.
// Plain data, so that it can be stored as it is; these functions are all that changes it.

import { requestCall } from "./calls.js";

const kRoot = "root";
const kTitleLength = 60;

// crypto.randomUUID exists in secure contexts only, and a server on another machine may speak plain http.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function createConversation(system = "") {
  const now = Date.now();
  const root = { id: kRoot, parent: null, role: "root", children: [], chosen: null };
  return { id: newId(), title: "", named: false, system, created: now, updated: now, nodes: { [kRoot]: root } };
}

// Whether something read from the store or a file can be shown.
export function isConversation(value) {
  if (!value || typeof value.id !== "string" || typeof value.title !== "string") return false;
  const nodes = value.nodes;
  if (!nodes || typeof nodes !== "object" || !Object.hasOwn(nodes, kRoot)) return false;
  return Object.values(nodes).every((node) =>
    node && Array.isArray(node.children) && node.children.every((id) => Object.hasOwn(nodes, id)) &&
    (node.id === kRoot || (typeof node.content === "string" && ["user", "assistant", "tool"].includes(node.role) &&
      (node.calls === undefined || Array.isArray(node.calls)))));
}

// The messages that are shown, first to last.
export function path(conversation) {
  const shown = [];
  const seen = new Set();
  let node = conversation.nodes[kRoot];
  while (node && node.chosen && !seen.has(node.chosen)) {
    seen.add(node.chosen);  // a damaged store must not hang the page
    node = conversation.nodes[node.chosen];
    if (node) shown.push(node);
  }
  return shown;
}

export function lastId(conversation) {
  return path(conversation).at(-1)?.id ?? kRoot;
}

// Adds a message below `parent` and shows it.
export function addMessage(conversation, parent, role, content = "") {
  const node = { id: newId(), parent, role, content, reasoning: "", time: Date.now(), children: [], chosen: null };
  conversation.nodes[node.id] = node;
  conversation.nodes[parent].children.push(node.id);
  conversation.nodes[parent].chosen = node.id;
  conversation.updated = node.time;
  if (role === "user" && !conversation.named && !conversation.title) conversation.title = titleOf(content);
  return node;
}

export function branches(conversation, node) {
  return conversation.nodes[node.parent]?.children ?? [];
}

// Shows the branch `step` to the right of the one that holds `node`.
export function switchBranch(conversation, node, step) {
  const ids = branches(conversation, node);
  const index = ids.indexOf(node.id) + step;
  if (index >= 0 && index < ids.length) conversation.nodes[node.parent].chosen = ids[index];
}

function titleOf(text) {
  const line = text.trim().split("\n")[0].replace(/\s+/g, " ");
  return line.length > kTitleLength ? line.slice(0, kTitleLength - 1).trimEnd() + "…" : line;
}

// What is sent for the answer below `parent`: the system prompt and every message down to it.
export function requestMessages(conversation, parent) {
  const messages = [];
  for (let node = conversation.nodes[parent]; node && node.id !== kRoot; node = conversation.nodes[node.parent]) {
    if (node.role === "tool") messages.unshift({ role: "tool", tool_call_id: node.call, content: node.content });
    else if (node.calls?.length) messages.unshift({ role: "assistant", content: node.content, tool_calls: node.calls.map(requestCall) });
    else if (node.content || node.role === "user") messages.unshift({ role: node.role, content: node.content });
  }
  if (conversation.system.trim()) messages.unshift({ role: "system", content: conversation.system });
  return messages;
}

export function asMarkdown(conversation) {
  const parts = [`# ${conversation.title || "Conversation"}`];
  if (conversation.system.trim()) parts.push(`**System**\n\n${conversation.system}`);
  const names = { user: "You", assistant: "Assistant", tool: "Tool" };
  for (const node of path(conversation)) {
    const calls = (node.calls ?? []).map((call) => `\n\n\`${call.name}\`\n\n\`\`\`json\n${call.text}\n\`\`\``);
    parts.push(`**${names[node.role]}**\n\n${node.content}${calls.join("")}`);
  }
  return parts.join("\n\n") + "\n";
}
