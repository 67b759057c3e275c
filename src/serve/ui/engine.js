// The live view of the engine: asks /v1/engine, keeps the last minutes, draws them.
import { engineFacts } from "./api.js";
import { Chart } from "./chart.js";
import { byId, el } from "./dom.js";

const kFast = 500;      // ms between two questions while the view is open
const kSlow = 5000;     // while it is not: for the status dot
const kKept = 90000;    // ms of samples
const kRecent = 10000;  // ms over which the hit rate is taken
const kDrawing = 100;   // ms between two drawings: smooth enough, and the engine may share this machine's cores

// Asks for facts again and again and makes samples of them.
export class EngineFeed {
  // hooks: facts(facts or null when there is no answer), needKey(wasWrong) → promise of whether one was given
  constructor(hooks) {
    this.hooks = hooks;
    this.samples = [];
    this.history = [];  // {t, facts} of the last kRecent
    this.fast = false;
    this.timer = 0;
    this.keyWasWrong = false;
    this.refused = false;  // the user gave no key: nothing is asked until there is one
    document.addEventListener("visibilitychange", () => this.again(0));
  }

  setFast(fast) {
    this.fast = fast;
    this.again(0);
  }

  again(delay) {
    clearTimeout(this.timer);
    if (!document.hidden && !this.refused) this.timer = setTimeout(() => this.ask(), delay);
  }

  async ask() {
    if (this.asking) return;
    this.asking = true;
    try {
      const facts = await engineFacts();
      this.keyWasWrong = false;
      this.add(performance.now(), facts);
      this.hooks.facts(facts);
    } catch (error) {
      this.hooks.facts(null);
      if (error.status === 401) {
        this.refused = !(await this.hooks.needKey(this.keyWasWrong));
        this.keyWasWrong = !this.refused;
        this.hooks.facts(null);
      }
    } finally {
      this.asking = false;
      this.again(this.keyWasWrong ? 0 : this.fast ? kFast : kSlow);
    }
  }

  add(t, facts) {
    const before = this.history.at(-1);
    // Counters that fall belong to another process: begin anew.
    if (before && facts.uptime_seconds < before.facts.uptime_seconds) this.history = [];
    const previous = this.history.at(-1);
    this.history.push({ t, facts });
    while (this.history.length > 2 && this.history[1].t < t - kRecent) this.history.shift();
    if (!previous) return;
    const last = this.samples.at(-1);
    this.samples.push({
      t,
      tps: smooth(last, "tps", t, rate(previous, { t, facts }, "tokens")),
      prompt_tps: smooth(last, "prompt_tps", t, rate(previous, { t, facts }, "prompt_tokens")),
      running: facts.running,
      waiting: facts.waiting,
      used: known(facts.pages) ? facts.pages - facts.free_pages - facts.cached_pages : null,
      cached: facts.cached_pages,
      pages: facts.pages,
      hit: this.hitRate(facts),
      gap: facts.gap_ms,
    });
    while (this.samples[0].t < t - kKept) this.samples.shift();
  }

  // Of the prompts lately; where there were none, since the start.
  hitRate(facts) {
    const first = this.history[0].facts;
    const prompt = facts.prompt_tokens - first.prompt_tokens;
    if (prompt > 0) return (100 * (facts.reused_tokens - first.reused_tokens)) / prompt;
    return facts.prompt_tokens > 0 ? (100 * facts.reused_tokens) / facts.prompt_tokens : null;
  }
}

const known = (value) => typeof value === "number";

function rate(before, now, key) {
  if (!known(now.facts[key]) || !known(before.facts[key])) return null;
  return Math.max(0, (1000 * (now.facts[key] - before.facts[key])) / Math.max(1, now.t - before.t));
}

// Half a second holds few tokens, so the rate is averaged over about a second.
function smooth(last, key, t, value) {
  if (!last || !known(last[key]) || value === null) return value;
  const weight = 1 - Math.exp(-(t - last.t) / 1000);
  const mixed = last[key] + (value - last[key]) * weight;
  return mixed < 0.05 ? 0 : mixed;
}

const whole = (value) => Math.round(value).toLocaleString("en");
const short = (value) => (value < 10 ? value.toFixed(1) : whole(value));

function bytes(value) {
  if (!known(value)) return "–";
  return value >= 1e9 ? `${(value / 1e9).toFixed(2)} GB` : `${(value / 1e6).toFixed(0)} MB`;
}

function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// Mean of a layer and step; none in a model without experts.
function experts(facts, key, unit) {
  return facts.expert_layers > 0 ? `${short(facts[key] / facts.expert_layers)} ${unit}` : "–";
}

const kFacts = [
  ["Model", (facts) => facts.model ?? "–"],
  ["Context", (facts) => (known(facts.context) ? `${whole(facts.context)} tokens` : "–")],
  ["Generated", (facts) => (known(facts.tokens) ? `${whole(facts.tokens)} tokens` : "–")],
  ["Prompts", (facts) => (known(facts.prompt_tokens) ? `${whole(facts.prompt_tokens)} tokens` : "–")],
  ["From the cache", (facts) => (known(facts.reused_tokens) ? `${whole(facts.reused_tokens)} tokens` : "–")],
  ["Mean step", (facts) => (facts.steps > 0 ? `${((1000 * facts.step_seconds) / facts.steps).toFixed(1)} ms` : "–")],
  ["Experts a layer", (facts) => experts(facts, "experts_touched", "met")],
  ["Busiest expert", (facts) => experts(facts, "expert_busiest_rows", "rows")],
  ["Memory", (facts) => bytes(facts.rss_bytes)],
  ["KV cache", (facts) => bytes(facts.kv_bytes)],
  ["Device", (facts) => facts.device ?? "–"],
  ["Device memory", (facts) => (known(facts.device_total_bytes) ? `${bytes(facts.device_total_bytes - facts.device_free_bytes)} of ${bytes(facts.device_total_bytes)}` : "–")],
  ["Up for", (facts) => duration(facts.uptime_seconds)],
];

const kRankRows = [
  ["A step", (d) => (d.steps > 0 ? `${((1000 * d.step_seconds) / d.steps).toFixed(1)} ms` : "–")],
  ["Waits", (d) => share(d.wait_seconds, d.step_seconds)],
  ["In collectives", (d) => share(d.collective_seconds, d.step_seconds)],
  ["Sent a step", (d) => (d.steps > 0 ? kilobytes(d.sent_bytes / d.steps) : "–")],
  ["State", (d) => (d.alive ? "alive" : "lost")],
  ["Host", (d) => d.host || "this process"],
];

const share = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–");
const kilobytes = (value) => (value >= 1e6 ? `${short(value / 1e6)} MB` : `${short(value / 1e3)} kB`);
const total = (rank) => Object.values(rank.sent_bytes ?? {}).reduce((sum, value) => sum + value, 0);

// What a rank did between two facts; since the start where it did nothing.
function rankSince(before, rank) {
  const kCounters = ["steps", "step_seconds", "wait_seconds", "collective_seconds"];
  const now = { ...rank, sent_bytes: total(rank) };
  if (!before || before.rank !== rank.rank || !(rank.steps > before.steps)) return now;
  for (const key of kCounters) now[key] -= before[key];
  now.sent_bytes -= total(before);
  return now;
}

const rankName = (rank, several) => (several ? `Engine ${rank.engine}, rank ${rank.rank}` : `Rank ${rank.rank}`);

// The ranks side by side: a column each. Hidden where the model has but one.
class RankTable {
  constructor() {
    this.node = el("table", { class: "ranks", hidden: true });
  }

  show(ranks, before) {
    this.node.hidden = !(ranks?.length > 0);
    if (this.node.hidden) return;
    const several = ranks.some((rank) => rank.engine > 0);
    const seen = ranks.map((rank, i) => rankSince(before?.[i], rank));
    const head = el("tr", {}, el("th", {}, ""), ...ranks.map((rank) => el("th", { scope: "col" }, rankName(rank, several))));
    const rows = kRankRows.map(([name, text]) => el("tr", {}, el("th", { scope: "row" }, name), ...seen.map((rank) => el("td", {}, text(rank)))));
    this.node.replaceChildren(head, ...rows);
  }
}

export class EnginePanel {
  constructor(feed) {
    this.feed = feed;
    this.timer = 0;
    this.charts = [
      new Chart({ title: "Tokens per second", format: short, least: 10, series: [{ key: "tps", label: "generated", color: "chart-1" }, { key: "prompt_tps", label: "prompts read", color: "chart-2" }] }),
      new Chart({ title: "Requests", format: whole, least: 4, steps: true, series: [{ key: "running", label: "running", color: "chart-1" }, { key: "waiting", label: "waiting", color: "chart-3" }] }),
      new Chart({ title: "Gap between tokens", format: (value) => `${short(value)} ms`, least: 20, series: [{ key: "gap", label: "gap", color: "chart-4" }] }),
      new Chart({ title: "KV pages", format: whole, least: 16, stacked: true, series: [{ key: "used", label: "in use", color: "chart-1" }, { key: "cached", label: "cached", color: "chart-2" }] }),
      new Chart({ title: "Prefix hit rate", format: (value) => `${whole(value)} %`, top: 100, series: [{ key: "hit", label: "hit rate", color: "chart-2" }] }),
    ];
    this.values = kFacts.map(() => el("dd", {}, "–"));
    const facts = el("dl", { class: "facts" }, ...kFacts.flatMap(([name], i) => [el("dt", {}, name), this.values[i]]));
    this.ranks = new RankTable();
    byId("pane-engine").append(...this.charts.map((chart) => chart.node), el("div", { class: "ranks-scroll" }, this.ranks.node), facts);
    addEventListener("ingot-theme", () => this.charts.forEach((chart) => chart.readColors()));
  }

  showFacts(facts) {
    kFacts.forEach(([, text], i) => { this.values[i].textContent = text(facts); });
    if (known(facts.pages)) this.charts[3].top = facts.pages;
    this.ranks.show(facts.ranks, this.feed.history[0]?.facts.ranks);
  }

  open(isOpen) {
    this.feed.setFast(isOpen);
    clearInterval(this.timer);
    if (!isOpen) return;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.draw();
    this.timer = setInterval(() => document.hidden || this.draw(), calm ? 1000 : kDrawing);
  }

  draw() {
    const now = performance.now();
    for (const chart of this.charts) {
      chart.samples = this.feed.samples;
      chart.draw(now);
    }
  }
}
