// Statistics: totals, latency plots, and a table of methods.

import { h, put, visible } from "./dom.js";
import { bytes, duration, integer, plural } from "./format.js";
import { color, logScale, plot, roundDuration, tickLabel, ticks } from "./chart.js";
import { lateAfter, state } from "./state.js";

const COLUMNS = [
  ["method", "Method", (it) => it.method],
  ["dir", "", (it) => it.dir],
  ["count", "Count", (it) => it.count],
  ["errors", "Errors", (it) => it.errors],
  ["open", "No answer", (it) => it.open],
  ["p50", "p50", (it) => it.p50 ?? -1],
  ["p95", "p95", (it) => it.p95 ?? -1],
  ["p99", "p99", (it) => it.p99 ?? -1],
  ["max", "Max", (it) => it.max ?? -1],
  ["bytes", "Bytes", (it) => it.bytes],
];

export function statsView(app) {
  let data = null;
  let [sort, falling] = ["max", true];
  let closed = false;
  const cards = h("div", { class: "cards" });
  const table = h("table", { class: "methods" });
  const histogram = plot("histogram", drawHistogram, "Distribution of latencies");
  const scatter = plot("scatter", drawScatter, "Latency over time");
  scatter.canvas.addEventListener("click", pick);
  const figure = (title, note, chart) =>
    h("figure", {}, h("figcaption", {}, h("b", {}, title), h("span", { class: "muted" }, note)), chart.canvas);
  const notice = h("div", { class: "empty", hidden: true });
  const content = h("div", { class: "stats", tabindex: 0 }, cards,
    h("div", { class: "plots" },
      figure("Latency", "requests by the time to their answer", histogram),
      figure("Latency over time", "click a dot to open its request", scatter)),
    h("div", { class: "methods-box" }, table));
  const element = h("div", { class: "list-box" }, content, notice);

  async function load() {
    try {
      const answer = await app.rpc.call("stats", { session: app.session, filter: state.get("filter") ?? "", late: lateAfter() });
      if (closed) return;
      if (answer.scanned < answer.all) {
        app.report({ total: 0, records: answer.all, scanned: answer.scanned, isLoaded: true });
        return load();
      }
      data = answer;
      app.report({ total: data.records, records: data.all, scanned: data.all, isLoaded: true });
    } catch (error) {
      if (!closed) app.report({ error });
      return;
    }
    draw();
  }

  function draw() {
    const isEmpty = data.records === 0;
    notice.hidden = !isEmpty;
    content.hidden = isEmpty;
    if (isEmpty) return put(notice, h("b", {}, "Nothing to count"), h("p", {}, data.all === 0 ? "The trace is empty." : "No record matches the filter."));
    const card = (label, value, note, tone) =>
      h("div", { class: `card ${tone ?? ""}` }, h("span", { class: "muted" }, label), h("b", { class: "num" }, value), h("i", { class: "muted num" }, note));
    put(cards,
      card("Requests", integer(data.requests), plural(data.notifications, "notification")),
      card("Errors", integer(data.errors), data.requests ? `${((100 * data.errors) / data.requests).toFixed(1)} % of all` : "", data.errors && "bad"),
      card("No answer", integer(data.open), `${integer(data.cancelled)} cancelled`, data.open && "warn"),
      card("Median", data.p50 === undefined ? "–" : duration(data.p50), data.p95 === undefined ? "" : `p95 ${duration(data.p95)}`),
      card("Slowest", data.max === undefined ? "–" : duration(data.max), data.p99 === undefined ? "" : `p99 ${duration(data.p99)}`),
      card("Client → server", bytes(data.bytesUp), plural(data.countUp, "message")),
      card("Server → client", bytes(data.bytesDown), plural(data.countDown, "message")),
      card("Stray output", integer(data.noise), plural(data.stderr, "stderr line"), data.noise && "bad"));
    histogram.redraw();
    scatter.redraw();
    drawTable();
  }

  function drawTable() {
    const key = COLUMNS.find(([name]) => name === sort)[2];
    const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (falling ? -1 : 1);
    const slowest = Math.max(1, ...data.methods.map((it) => it.p95 ?? 0));
    put(table,
      h("thead", {}, h("tr", {}, COLUMNS.map(([name, label]) => h("th", { class: name, "aria-sort": sort === name ? (falling ? "descending" : "ascending") : "none" },
        h("button", { type: "button", class: "sort", onclick: () => {
          [sort, falling] = [name, sort === name ? !falling : name !== "method"];
          drawTable();
        } }, label, sort === name ? (falling ? " ↓" : " ↑") : ""))))),
      h("tbody", {}, [...data.methods].sort(order).map((it) => h("tr", {},
        h("td", { class: "method" }, h("button", { type: "button", class: "link", title: "Show its records", onclick: () => app.filterBy(`method:${quote(it.method)}`) }, visible(it.method))),
        h("td", { class: "dir" }, it.dir === "s2c" ? "←" : "→"),
        number(it.count), number(it.errors, it.errors ? "bad" : "dim"), number(it.open, it.open ? "warn" : "dim"),
        latency(it.p50), h("td", { class: "num p95", title: "The bar compares the p95 of the methods: its width is the square root of the share" }, bar((it.p95 ?? 0) / slowest), duration(it.p95)), latency(it.p99), latency(it.max),
        h("td", { class: "num" }, bytes(it.bytes))))));
  }

  const number = (value, tone = "") => h("td", { class: `num ${tone}` }, integer(value));
  const latency = (value) => h("td", { class: "num" }, duration(value));
  const bar = (part) => h("i", { class: "share", style: { width: `${Math.sqrt(part) * 100}%` } });

  const PAD = { left: 54, right: 12, top: 8, bottom: 18 };

  function drawHistogram(context, width, height) {
    if (!data?.histogram?.length) return none(context, width, height);
    const [w, base] = [width - PAD.left - PAD.right, height - PAD.bottom];
    // Some room above the highest bar, for the names of the quantiles.
    const most = Math.max(...data.histogram.map((it) => it.count)) * 1.2;
    const scale = logScale(data.histogram[0].from, data.histogram.at(-1).to);
    const x = (value) => PAD.left + scale.at(value) * w;
    context.textAlign = "right";
    for (const tick of ticks(0, most, 4)) {
      const y = base - (tick / most) * (base - PAD.top);
      context.fillStyle = color("line");
      context.fillRect(PAD.left, y, w, 1);
      context.fillStyle = color("muted");
      if (Number.isInteger(tick)) context.fillText(integer(tick), PAD.left - 6, y + 4);
    }
    for (const { from, to, count, errors } of data.histogram) {
      const tall = (value) => (value / most) * (base - PAD.top);
      const [left, wide] = [x(from), Math.max(1, x(to) - x(from) - 1)];
      context.fillStyle = color("bar");
      context.fillRect(left, base - tall(count), wide, tall(count));
      context.fillStyle = color("red");
      context.fillRect(left, base - tall(errors), wide, tall(errors));
    }
    context.textAlign = "center";
    context.fillStyle = color("muted");
    for (const decade of scale.decades) context.fillText(roundDuration(decade), x(decade), height - 4);
    const quantiles = [["p50", data.p50], ["p95", data.p95], ["p99", data.p99]].filter(([, value]) => value !== undefined);
    context.fillStyle = color("text");
    for (const [, value] of quantiles) context.fillRect(x(value), PAD.top, 1, base - PAD.top);
    // The names after all lines, each on a ground of its own: no line crosses them.
    context.textAlign = "left";
    quantiles.forEach(([name, value], index) => {
      const wide = context.measureText(name).width;
      const left = Math.min(x(value) + 3, width - PAD.right - wide);
      const top = PAD.top + 13 * index;
      context.fillStyle = color("bg");
      context.fillRect(left - 1, top, wide + 2, 12);
      context.fillStyle = color("text");
      context.fillText(name, left, top + 9);
    });
  }

  function place(width, height) {
    const [w, base] = [width - PAD.left - PAD.right, height - PAD.bottom];
    const values = data.dots.map((it) => it.took);
    const scale = logScale(Math.min(...values), Math.max(...values));
    return {
      scale, base,
      x: (at) => PAD.left + (at / Math.max(1, data.end)) * w,
      y: (took) => base - scale.at(took) * (base - PAD.top),
    };
  }

  function drawScatter(context, width, height) {
    if (!data?.dots?.length) return none(context, width, height);
    const { scale, base, x, y } = place(width, height);
    context.textAlign = "right";
    for (const decade of scale.decades) {
      context.fillStyle = color("line");
      context.fillRect(PAD.left, y(decade), width - PAD.left - PAD.right, 1);
      context.fillStyle = color("muted");
      context.fillText(roundDuration(decade), PAD.left - 6, y(decade) + 4);
    }
    context.textAlign = "center";
    const found = ticks(0, data.end, width / 90);
    for (const tick of found) context.fillText(tickLabel(tick, found[1] - found[0] || 1), x(tick), height - 4);
    for (const { at, took, state: fate } of data.dots) {
      context.fillStyle = color(fate === "error" ? "red" : fate === "late" ? "amber" : "bar");
      context.beginPath();
      context.arc(x(at), Math.min(base, y(took)), 2.5, 0, 7);
      context.fill();
    }
  }

  function none(context, width, height) {
    context.fillStyle = color("muted");
    context.textAlign = "center";
    context.fillText("No answered request", width / 2, height / 2);
  }

  function pick(event) {
    if (!data?.dots?.length) return;
    const { x, y } = place(scatter.canvas.clientWidth, scatter.canvas.clientHeight);
    const far = (it) => Math.hypot(x(it.at) - event.offsetX, y(it.took) - event.offsetY);
    const near = data.dots.reduce((best, it) => (far(it) < far(best) ? it : best));
    if (far(near) < 12) app.openRecord(near.n);
  }

  load();
  return {
    element,
    refresh: load,
    reload: load,
    redraw() {},
    move(distance) { content.scrollBy(0, distance * 24); },
    close() { closed = true; histogram.close(); scatter.close(); },
  };
}

/** A value of the filter language. */
function quote(text) {
  return /^[\w/$.-]+$/.test(text) ? text : JSON.stringify(text);
}
