// Markdown inside a line: emphasis, code, links. Makes nodes; what it does not understand stays text.
// Linear in the text but for links and emphasis that fail to close, which are remembered or bounded.
import { el, link } from "./dom.js";

const kMaxDepth = 12;     // of emphasis in emphasis: what is nested deeper stays text
const kMaxBrackets = 50;  // open at a time
const kPunctuation = /[!-/:-@[-`{-~]/;
const kSpace = /\s/;
const kUrl = /https?:\/\/[^\s<>"'`]+/y;

// A piece of the line: {node} or {text}, and for runs of * _ ~ also {mark, count, opens, closes}.
class Inline {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.pieces = [];
    this.brackets = [];   // indices into pieces
    this.noClose = {};    // what was searched for to the end and not found
  }

  parse() {
    while (this.at < this.text.length) this.step();
    emphasize(this.pieces, 0);
    return this.pieces.map(nodeOf);
  }

  step() {
    const char = this.text[this.at];
    if (char === "\\") return this.escape();
    if (char === "`") return this.code();
    if (char === "\n") return this.lineBreak();
    if (char === "<") return this.autolink();
    if (char === "[" || (char === "!" && this.text[this.at + 1] === "[")) return this.openBracket(char);
    if (char === "]") return this.closeBracket();
    if (char === "*" || char === "_" || char === "~") return this.run(char);
    if (char === "h" && this.bareUrl()) return undefined;
    return this.plain();
  }

  take(text) {
    const last = this.pieces.at(-1);
    if (last && last.mark === undefined && last.node === undefined && !last.bracket) last.text += text;
    else this.pieces.push({ text });
    this.at += text.length;
  }

  plain() {
    let end = this.at + 1;
    while (end < this.text.length && !"\\`\n<[]!*_~h".includes(this.text[end])) end++;
    this.take(this.text.slice(this.at, end));
  }

  escape() {
    const next = this.text[this.at + 1] ?? "";
    if (next === "(" || next === "[") return this.formula(next === "(" ? "\\)" : "\\]");
    if (next === "\n") {
      this.at += 1;
      return this.lineBreak();
    }
    if (!kPunctuation.test(next)) return this.take("\\");
    this.at += 1;
    return this.take(next);
  }

  // The index of `close` from `from` on, or -1; a search that failed once is not made again.
  find(close, from) {
    if (this.noClose[close]) return -1;
    const found = this.text.indexOf(close, from);
    if (found < 0) this.noClose[close] = true;
    return found;
  }

  // A formula is shown as it was written, in the letters of code.
  formula(close) {
    const end = this.find(close, this.at + 2);
    if (end < 0) {
      this.at += 1;
      return this.take(this.text[this.at]);
    }
    this.pieces.push({ node: el("span", { class: "formula" }, this.text.slice(this.at + 2, end).trim()) });
    this.at = end + 2;
    return undefined;
  }

  code() {
    let begin = this.at;
    while (this.text[begin] === "`") begin++;
    const ticks = this.text.slice(this.at, begin);
    let end = this.noClose[ticks] ? -1 : begin;
    while (end >= 0) {
      end = this.text.indexOf(ticks, end);
      if (end < 0 || (this.text[end + ticks.length] !== "`" && this.text[end - 1] !== "`")) break;
      while (this.text[end] === "`") end++;
    }
    if (end < 0) {
      this.noClose[ticks] = true;
      return this.take(ticks);
    }
    let inside = this.text.slice(begin, end).replace(/\n/g, " ");
    if (/^ .* $/.test(inside) && inside.trim()) inside = inside.slice(1, -1);
    this.pieces.push({ node: el("code", {}, inside) });
    this.at = end + ticks.length;
    return undefined;
  }

  // Small models write verse and lists with single line ends, so a line end is kept.
  lineBreak() {
    this.pieces.push({ node: el("br") });
    this.at += 1;
    while (this.text[this.at] === " ") this.at += 1;
  }

  autolink() {
    const end = this.find(">", this.at);
    const inside = end < 0 || end - this.at > 2000 ? "" : this.text.slice(this.at + 1, end);
    const node = /^(https?:\/\/|mailto:)[^\s<>]+$/.test(inside) ? link(inside, inside) : null;
    if (!node) return this.take("<");
    this.pieces.push({ node });
    this.at = end + 1;
    return undefined;
  }

  bareUrl() {
    kUrl.lastIndex = this.at;
    const match = kUrl.exec(this.text);
    if (!match || this.brackets.length) return false;
    let address = match[0].slice(0, 2000).replace(/[*_~]{2,}.*$/, "");
    address = address.replace(/[.,;:!?*_~\]]{1,20}$/, "");
    if (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
    const node = link(address, address);
    if (!node) return false;
    this.pieces.push({ node });
    this.at += address.length;
    return true;
  }

  openBracket(char) {
    const text = char === "!" ? "![" : "[";
    this.at += text.length;
    this.pieces.push({ text, bracket: true });
    this.brackets.push(this.pieces.length - 1);
    if (this.brackets.length > kMaxBrackets) this.brackets.shift();
  }

  // [text](address "title"): an image too becomes a link, so that no answer makes the browser fetch something.
  closeBracket() {
    const open = this.brackets.pop();
    const target = open === undefined ? null : this.target(this.at + 1);
    if (!target) return this.take("]");
    emphasize(this.pieces, open + 1);
    const inside = this.pieces.slice(open + 1).map(nodeOf);
    const image = this.pieces[open].text === "![";
    const node = link(target.address, ...(inside.length ? inside : [target.address]));
    this.pieces.length = open;
    if (node) {
      if (image) node.classList.add("image");
      this.pieces.push({ node });
    } else {
      this.pieces.push({ node: el("span", { class: "dead-link", title: "Not a link that can be followed" }, ...inside) });
    }
    this.at = target.end;
    return undefined;
  }

  target(begin) {
    if (this.text[begin] !== "(") return null;
    let depth = 0;
    const limit = Math.min(this.text.length, begin + 2000);
    for (let end = begin; end < limit; end++) {
      const char = this.text[end];
      if (char === "\n") return null;
      if (char === "(") depth++;
      if (char === ")" && --depth === 0) {
        const address = this.text.slice(begin + 1, end).trim().split(/\s/)[0].replace(/^<|>$/g, "");
        return { address, end: end + 1 };
      }
    }
    return null;
  }

  run(char) {
    let end = this.at;
    while (this.text[end] === char) end++;
    const count = end - this.at;
    const before = this.at === 0 ? " " : this.text[this.at - 1];
    const after = this.text[end] ?? " ";
    const left = !kSpace.test(after) && (!kPunctuation.test(after) || kSpace.test(before) || kPunctuation.test(before));
    const right = !kSpace.test(before) && (!kPunctuation.test(before) || kSpace.test(after) || kPunctuation.test(after));
    const text = this.text.slice(this.at, end);
    this.at = end;
    if (count > 3 || (char === "~" && count !== 2)) {
      this.pieces.push({ text });
      return;
    }
    const word = char === "_";  // snake_case is not emphasis
    const opens = left && (!word || !right || kPunctuation.test(before));
    const closes = right && (!word || !left || kPunctuation.test(after));
    this.pieces.push({ mark: char, count, opens, closes });
  }
}

function nodeOf(piece) {
  if (piece.node) return piece.node;
  return document.createTextNode(piece.mark ? piece.mark.repeat(piece.count) : piece.text);
}

const kTags = { "*1": "em", "*2": "strong", "_1": "em", "_2": "strong", "~2": "del" };

// Wraps what lies between marks that match, from piece `begin` to the end, in place.
function emphasize(pieces, begin) {
  const done = [];     // what is built so far
  const openers = [];  // indices into done of marks that may still be closed
  for (const piece of pieces.splice(begin)) {
    if (piece.mark && piece.closes) closeMarks(piece, done, openers);
    if (piece.mark && piece.count === 0) continue;
    done.push(piece);
    if (piece.mark && piece.opens) openers.push(done.length - 1);
  }
  pieces.push(...done.filter((piece) => !(piece.mark && piece.count === 0)));
}

function closeMarks(piece, done, openers) {
  while (piece.count > 0) {
    let at = openers.length - 1;
    const lowest = Math.max(0, openers.length - kMaxBrackets);
    while (at >= lowest && done[openers[at]].mark !== piece.mark) at--;
    if (at < lowest) return;
    const index = openers[at];
    const opener = done[index];
    const used = piece.mark === "~" ? 2 : Math.min(opener.count, piece.count, 2);
    const inside = done.slice(index + 1);
    const depth = 1 + inside.reduce((most, one) => Math.max(most, one.depth ?? 0), 0);
    if (depth > kMaxDepth) {
      openers.length = 0;  // so that each of many such marks costs nothing
      return;
    }
    done.length = index + 1;
    openers.length = at;
    opener.count -= used;
    piece.count -= used;
    if (opener.count > 0) openers.push(index);
    else done.length = index;
    done.push({ node: el(kTags[piece.mark + used], {}, ...inside.map(nodeOf)), depth });
  }
}

export function inlineNodes(text) {
  return new Inline(text).parse();
}
