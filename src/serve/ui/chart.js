// A chart that moves: the last minute of some series, drawn on a canvas.
import { el } from "./dom.js";

const kWindow = 60000;  // ms shown
const kDelay = 700;     // ms the right edge lags, so that a new sample slides in instead of jumping
const kBreak = 12000;   // ms without a sample: the line is broken

function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= value * 0.999);
  return step * power;
}

export class Chart {
  // series: [{key, label, color: name of a CSS variable}], drawn over each other, or on top of each other when stacked.
  // format(value) → text; top: the largest value, fixed; least: the scale never ends below it.
  constructor({ title, series, format, top = 0, least = 1, stacked = false, steps = false }) {
    Object.assign(this, { title, series, format, top, least, stacked, steps });
    this.samples = [];
    this.scale = top || least;
    this.hover = null;
    this.canvas = el("canvas", { role: "img", "aria-label": title });
    this.value = el("span", { class: "chart-value" });
    this.parts = series.map(() => el("b", {}, "–"));
    const legend = series.length < 2 ? null : el("div", { class: "legend" }, ...series.map((one, i) => el("span", { class: `key ${one.color}` }, one.label, this.parts[i])));
    this.node = el("figure", { class: "chart" }, el("figcaption", {}, el("span", {}, title), this.value), this.canvas, legend);
    this.canvas.addEventListener("pointermove", (event) => { this.hover = event.offsetX; });
    this.canvas.addEventListener("pointerleave", () => { this.hover = null; });
    this.readColors();
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    this.colors = Object.fromEntries([...this.series.map((one) => one.color), "line", "text-3"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  // Heights of the series at one sample: [[from, to], …], or null where there is no value.
  spans(sample) {
    let base = 0;
    return this.series.map(({ key }) => {
      const value = sample[key];
      if (value === null || value === undefined) return null;
      const from = this.stacked ? base : 0;
      base = from + value;
      return [from, base];
    });
  }

  fitScale(from) {
    if (this.top) {
      this.goal = this.scale = this.top;
      return;
    }
    let most = this.least;
    for (const sample of this.samples) {
      if (sample.t < from) continue;
      for (const span of this.spans(sample)) if (span) most = Math.max(most, span[1]);
    }
    this.goal = niceTop(most);
    this.scale += (this.goal - this.scale) * 0.3;
    if (Math.abs(this.goal - this.scale) < this.goal * 0.01) this.scale = this.goal;
  }

  draw(now) {
    const ratio = devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (!width || !height) return;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const end = now - kDelay;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.fitScale(end - kWindow);
    this.x = (t) => width * (1 - (end - t) / kWindow);
    this.y = (value) => height - 1 - (height - 14) * Math.min(1.05, value / this.scale);
    this.drawGrid(context, width, height);
    for (let i = this.series.length - 1; i >= 0; i--) this.drawSeries(context, i, height);
    this.drawHover(context, height, end);
  }

  drawGrid(context, width, height) {
    context.strokeStyle = this.colors.line;
    context.fillStyle = this.colors["text-3"];
    context.lineWidth = 1;
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "bottom";
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(this.y(this.scale * share)) + 0.5;
      context.beginPath();
      context.moveTo(0, Math.min(y, height - 0.5));
      context.lineTo(width, Math.min(y, height - 0.5));
      context.stroke();
    }
    context.fillText(this.format(this.goal), 1, this.y(this.scale) - 1);
  }

  // The stretches of samples without a break, as lists of [x, from, to].
  stretches(index) {
    const lists = [[]];
    let last = null;
    for (const sample of this.samples) {
      const span = this.spans(sample)[index];
      if (!span || (last !== null && sample.t - last > kBreak)) lists.push([]);
      if (span) lists.at(-1).push([this.x(sample.t), this.y(span[0]), this.y(span[1])]);
      last = sample.t;
    }
    return lists.filter((list) => list.length > 0);
  }

  drawSeries(context, index, height) {
    const color = this.colors[this.series[index].color];
    for (const points of this.stretches(index)) {
      const line = new Path2D();
      points.forEach(([x, , y], i) => {
        if (i === 0) line.moveTo(x, y);
        if (i > 0 && this.steps) line.lineTo(x, points[i - 1][2]);
        line.lineTo(x, y);
      });
      const area = new Path2D(line);
      for (let i = points.length - 1; i >= 0; i--) {
        area.lineTo(points[i][0], this.stacked ? points[i][1] : height);
      }
      area.closePath();
      context.globalAlpha = this.stacked ? 0.55 : 0.14;
      context.fillStyle = color;
      context.fill(area);
      context.globalAlpha = 1;
      context.strokeStyle = color;
      context.lineWidth = 1.75;
      context.lineJoin = "round";
      context.stroke(line);
    }
  }

  drawHover(context, height, end) {
    let sample = this.samples.at(-1);
    let when = "";
    if (this.hover !== null && this.samples.length) {
      sample = this.samples.reduce((best, one) => (Math.abs(this.x(one.t) - this.hover) < Math.abs(this.x(best.t) - this.hover) ? one : best));
      const x = this.x(sample.t);
      context.strokeStyle = this.colors["text-3"];
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height);
      context.stroke();
      when = ` · ${Math.max(0, Math.round((end - sample.t) / 1000))} s ago`;
    }
    this.showValues(sample ?? {}, when);
  }

  showValues(sample, when) {
    const texts = this.series.map(({ key }) => (sample[key] === null || sample[key] === undefined ? "–" : this.format(sample[key])));
    const said = this.series.map(({ label }, i) => `${label} ${texts[i]}`).join(", ") + when;
    if (said === this.said) return;
    this.said = said;
    this.value.textContent = texts[0] + when;
    this.parts.forEach((part, i) => { part.textContent = texts[i]; });
    this.canvas.setAttribute("aria-label", `${this.title}: ${said}`);
  }
}
