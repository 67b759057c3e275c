// Markdown → nodes, block by block. A growing answer is drawn anew only from the block that changed.
import { copyButton, el } from "./dom.js";
import { highlight } from "./highlight.js";
import { inlineNodes } from "./inline.js";

const kMaxDepth = 8;  // of quotes and lists in each other: what is nested deeper stays text
// Each of these reads a line once: none has two ways to match the same spaces.
const kFence = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?=\s|$)/;
const kRule = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const kQuote = /^ {0,3}>\s?/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])(\s+(.*)|$)/;
const kTableRule = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/;

const indentOf = (line) => line.length - line.trimStart().length;
const isBlank = (line) => line.trim() === "";

// Blocks of some lines: {kind, from, to, …}; from and to are lines.
function parseBlocks(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const block = readFence(lines, at) ?? readSimple(lines, at) ?? (depth < kMaxDepth ? readNested(lines, at) : null) ??
      readTable(lines, at) ?? readParagraph(lines, at, depth);
    block.from = at;
    blocks.push(block);
    at = block.to;
  }
  return blocks;
}

function readFence(lines, at) {
  const match = kFence.exec(lines[at]);
  if (!match) return null;
  const indent = match[1].length;
  const close = new RegExp(`^ {0,3}${match[2][0]}{${match[2].length},}\\s*$`);
  let to = at + 1;
  while (to < lines.length && !close.test(lines[to])) to++;
  const text = lines.slice(at + 1, to).map((line) => line.slice(Math.min(indent, indentOf(line)))).join("\n");
  return { kind: "code", text, language: match[3].trim().split(/[\s{,]/)[0], to: Math.min(to + 1, lines.length) };
}

function readSimple(lines, at) {
  const heading = kHeading.exec(lines[at]);
  if (heading) {
    const text = lines[at].slice(heading[0].length).trim();
    const bare = text.replace(/#{1,6}$/, "");
    return { kind: "heading", level: heading[1].length, text: /(^|\s)$/.test(bare) ? bare.trim() : text, to: at + 1 };
  }
  if (kRule.test(lines[at])) return { kind: "rule", to: at + 1 };
  return null;
}

function readNested(lines, at) {
  if (kQuote.test(lines[at])) {
    let to = at + 1;
    while (to < lines.length && !isBlank(lines[to]) && (kQuote.test(lines[to]) || !startsBlock(lines, to))) to++;
    return { kind: "quote", lines: lines.slice(at, to).map((line) => line.replace(kQuote, "")), to };
  }
  return kItem.test(lines[at]) ? readList(lines, at) : null;
}

// A list runs on over lines that are indented below its items, and over items of its own kind.
function readList(lines, at) {
  const first = kItem.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const base = first[1].length;
  const items = [];
  let loose = false;
  let to = at;
  while (to < lines.length) {
    const match = kItem.exec(lines[to]);
    if (!match || match[1].length > base + 1 || match[1].length < base - 1 || /\d/.test(match[2]) !== ordered ||
        kRule.test(lines[to])) break;
    const inner = match[1].length + match[2].length + 1;
    const item = [match[4] ?? ""];
    for (to++; to < lines.length; to++) {
      if (isBlank(lines[to])) {
        const next = lines[to + 1];
        if (next === undefined || isBlank(next) || (indentOf(next) < inner - 1 && !kItem.test(next))) break;
        if (indentOf(next) < inner - 1) {
          loose = true;
          to++;
          break;
        }
        item.push("");
      } else if (indentOf(lines[to]) >= Math.min(inner, base + 2) || !startsBlock(lines, to)) {
        item.push(lines[to].slice(Math.min(inner, indentOf(lines[to]))));
      } else {
        break;
      }
    }
    items.push(item);
  }
  return { kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items, loose, to };
}

function cells(line) {
  const inside = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function readTable(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !kTableRule.test(lines[at + 1].trim())) return null;
  const head = cells(lines[at]);
  const rules = cells(lines[at + 1]);
  if (rules.length !== head.length) return null;
  const align = rules.map((rule) => (rule.endsWith(":") ? (rule.startsWith(":") ? "center" : "right") : "left"));
  let to = at + 2;
  while (to < lines.length && lines[to].includes("|") && !isBlank(lines[to])) to++;
  return { kind: "table", head, align, rows: lines.slice(at + 2, to).map(cells), to };
}

function startsBlock(lines, at) {
  return kFence.test(lines[at]) || kHeading.test(lines[at]) || kRule.test(lines[at]) || kQuote.test(lines[at]) ||
    kItem.test(lines[at]);
}

function readParagraph(lines, at, depth) {
  let to = at + 1;
  while (to < lines.length && !isBlank(lines[to]) && (depth >= kMaxDepth || !startsBlock(lines, to)) &&
         !readTable(lines, to)) to++;
  return { kind: "paragraph", text: lines.slice(at, to).join("\n").trim(), to };
}

const kDraw = {
  paragraph: (block) => el("p", {}, ...inlineNodes(block.text)),
  heading: (block) => el(`h${Math.min(6, block.level + 1)}`, { class: `level-${block.level}` }, ...inlineNodes(block.text)),
  rule: () => el("hr"),
  quote: (block, depth) => el("blockquote", {}, ...drawAll(block.lines, depth + 1)),
  list: drawList,
  table: drawTable,
  code: drawCode,
};

function drawAll(lines, depth) {
  return parseBlocks(lines, depth).map((block) => kDraw[block.kind](block, depth));
}

function drawList(block, depth) {
  const list = el(block.ordered ? "ol" : "ul", { start: block.ordered && block.start !== 1 ? block.start : null });
  for (const lines of block.items) {
    const task = /^\[([ xX])\]\s+/.exec(lines[0]);
    const rest = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
    const item = el("li", { class: task ? "task" : null });
    if (task) item.append(el("input", { type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": "Task" }));
    for (const node of drawAll(rest, depth + 1)) {
      if (node.tagName === "P" && !block.loose) item.append(...node.childNodes);
      else item.append(node);
    }
    list.append(item);
  }
  return list;
}

function drawTable(block) {
  const row = (tag, texts) => el("tr", {}, ...block.align.map((align, i) =>
    el(tag, { class: `align-${align}`, scope: tag === "th" ? "col" : null }, ...inlineNodes(texts[i] ?? ""))));
  const table = el("table", {}, el("thead", {}, row("th", block.head)), el("tbody", {}, ...block.rows.map((texts) => row("td", texts))));
  return el("div", { class: "table-frame", tabindex: "0", role: "group", "aria-label": "Table" }, table);
}

function drawCode(block) {
  const head = el("div", { class: "code-head" }, el("span", {}, block.language || "text"), copyButton(() => block.text, "Copy code"));
  const code = el("code", {}, ...highlight(block.text, block.language.toLowerCase()));
  return el("div", { class: "code" }, head, el("pre", { tabindex: "0", "aria-label": "Code" }, code));
}

// Shows `text` in `container`. Called again with a longer text it leaves the blocks that did not change alone.
export function renderMarkdown(container, text) {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n");
  const blocks = parseBlocks(lines, 0);
  const drawn = (container.drawnBlocks ??= []);
  blocks.forEach((block, i) => {
    const source = lines.slice(block.from, block.to).join("\n");
    if (drawn[i]?.source === source) return;
    const node = kDraw[block.kind](block, 0);
    if (drawn[i]) drawn[i].node.replaceWith(node);
    else container.append(node);
    drawn[i] = { source, node };
  });
  for (const { node } of drawn.splice(blocks.length)) node.remove();
}
