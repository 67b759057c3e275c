// Colours for code: comments, strings, numbers, words. Not a parser of any language, and cheap.
import { el } from "./dom.js";

const kMaxLength = 60000;  // longer code is shown plain

const kSlash = String.raw`//[^\n]*|/\*[^]*?(?:\*/|$)`;
const kHash = String.raw`#[^\n]*`;
const kQuotes = String.raw`"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?`;
const kTicks = "`(?:[^`\\\\]|\\\\[^])*`?";
const kTriple = String.raw`[rbfRBF]{0,2}"""[^]*?(?:"""|$)|[rbfRBF]{0,2}'''[^]*?(?:'''|$)`;

const words = (text) => new Set(text.split(" "));

const kFamilies = {
  c: {
    comment: kSlash, string: `${kQuotes}|${kTicks}`,
    keywords: words("abstract alignas as async auto await bool boolean break byte case catch char class concept const constexpr constinit continue co_await co_return co_yield crate decltype def default defer delete do double dyn else enum explicit export extends extern final finally float fn for from func function go goto if impl implements import in inline instanceof int interface is let long loop match mod mut mutable namespace new noexcept of operator override package private protected pub public readonly ref requires return self short signed sizeof static static_assert static_cast struct super switch template this throw throws trait try type typedef typename typeof union unsafe unsigned use using val var virtual void volatile when where while with yield"),
    constants: words("true false null nullptr undefined None Some Ok Err NaN nil"),
  },
  python: {
    comment: kHash, string: `${kTriple}|[rbfRBF]{0,2}(?:${kQuotes})`,
    keywords: words("and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield begin end module require do then unless until when ensure rescue"),
    constants: words("True False None nil true false"),
  },
  shell: {
    comment: String.raw`(?<![\w$&{])#[^\n]*`, string: kQuotes,
    keywords: words("if then else elif fi for in do done while until case esac function return local export set unset echo cd exit source sudo FROM RUN COPY USER CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE"),
    constants: words("true false"),
  },
  sql: {
    comment: String.raw`--[^\n]*|/\*[^]*?(?:\*/|$)`, string: kQuotes, fold: true,
    keywords: words("add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not offset on or order outer primary references returning right rollback select set table then transaction union unique update using values view when where with"),
    constants: words("null true false"),
  },
  data: { comment: kHash, string: kQuotes, keywords: words(""), constants: words("true false null yes no on off") },
  markup: {
    comment: String.raw`<!--[^]*?(?:-->|$)`, string: kQuotes, word: String.raw`</?[A-Za-z][\w:-]*|/?>`,
    keywords: null, constants: words(""),
  },
  style: {
    comment: String.raw`/\*[^]*?(?:\*/|$)`, string: kQuotes, word: String.raw`[@-]*[A-Za-z][\w-]*`,
    keywords: words("@media @import @keyframes @supports @layer !important"), constants: words("none auto inherit initial"),
  },
};

const kLanguages = {
  python: "py python python3 rb ruby jl julia",
  shell: "sh bash zsh shell console dockerfile docker make makefile cmake fish",
  sql: "sql sqlite postgres postgresql mysql",
  data: "json jsonc yaml yml toml ini conf",
  markup: "html xml svg vue jsx-html",
  style: "css scss less",
  c: "c h cpp c++ cc hpp cuda cu js javascript jsx ts typescript tsx java kotlin kt go rust rs swift cs csharp c# php scala dart zig glsl objc proto",
};

const kFamilyOf = new Map();
for (const [family, names] of Object.entries(kLanguages)) {
  for (const name of names.split(" ")) kFamilyOf.set(name, family);
}

const kScanners = new Map();

function scannerOf(name) {
  if (!kScanners.has(name)) {
    const family = kFamilies[name];
    const word = family.word ?? String.raw`[A-Za-z_$][\w$]*`;
    const number = String.raw`\b(?:0[xXbB][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w*`;
    kScanners.set(name, new RegExp(`(?<c>${family.comment})|(?<s>${family.string})|(?<w>${word})|(?<n>${number})`, "g"));
  }
  return kScanners.get(name);
}

function classOf(family, match, text, end) {
  if (match.c !== undefined) return "tok-comment";
  if (match.s !== undefined) return "tok-string";
  if (match.n !== undefined) return "tok-number";
  if (family.keywords === null) return "tok-keyword";
  const word = family.fold ? match.w.toLowerCase() : match.w;
  if (family.keywords.has(word)) return "tok-keyword";
  if (family.constants.has(word)) return "tok-number";
  if (text[end] === "(") return "tok-call";
  return null;
}

function diffNodes(text) {
  return text.split(/(?<=\n)/).map((line) => {
    const kind = line.startsWith("+") ? "tok-added" : line.startsWith("-") ? "tok-removed" : line.startsWith("@@") ? "tok-comment" : null;
    return kind ? el("span", { class: kind }, line) : line;
  });
}

// Nodes and strings that together are exactly `text`.
export function highlight(text, language) {
  if (text.length > kMaxLength) return [text];
  if (language === "diff" || language === "patch") return diffNodes(text);
  const name = kFamilyOf.get(language);
  if (!name) return [text];
  const family = kFamilies[name];
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(scannerOf(name))) {
    const end = match.index + match[0].length;
    const kind = classOf(family, match.groups, text, end);
    if (!kind) continue;
    if (match.index > at) nodes.push(text.slice(at, match.index));
    nodes.push(el("span", { class: kind }, match[0]));
    at = end;
  }
  nodes.push(text.slice(at));
  return nodes;
}
