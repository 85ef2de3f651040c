// The timeline: each request as a bar from its sending to its answer, below an overview of the whole session. Dragging
// in the overview selects a time range; the wheel zooms.

import { h, put, visible } from "./dom.js";
import { STATES, duration, fate, integer } from "./format.js";
import { color, plot, tickLabel, ticks } from "./chart.js";
import { RecordList, cells, text } from "./records.js";
import { lateAfter, state } from "./state.js";

const CLASSES = ["method", "took num", "lane"];
const BUCKETS = 240;
const LEAST_SPAN = 100;

export function timelineView(app) {
  let overview = { end: 1, buckets: [] };
  let drag = null;
  const range = () => [state.get("from") ?? 0, state.get("to") ?? Math.max(1, overview.end)];

  const top = plot("overview", drawOverview, "Records over time");
  const axis = plot("axis", drawAxis, "Time axis");
  const whole = h("button", { type: "button", class: "quiet", title: "Show the whole session (0)", onclick: () => zoom(undefined, undefined) }, "Whole session");
  const span = h("span", { class: "num muted" });
  const head = [
    h("div", { class: "overview-box" }, top.canvas),
    h("div", { class: "head lane-grid" },
      h("span", { class: "method" }, "Request"), h("span", { class: "took num" }, "Took"),
      h("span", { class: "lane" }, axis.canvas)),
  ];
  const foot = h("div", { class: "foot" }, span, whole, h("span", { class: "hint muted" }, "Drag above to select a range. Wheel with Ctrl zooms, with Shift moves."));

  const view = new RecordList(app, {
    height: 24,
    label: "Timeline",
    className: "timeline",
    head,
    follows: () => false,
    query: () => ({
      session: app.session, filter: state.get("filter") ?? "", only: "requests", sort: "time",
      from: state.get("from"), to: state.get("to"),
    }),
    emptyText: () => [h("b", {}, "No request in this range"), h("p", {}, "Select another range above, or show the whole session.")],
    draw: (line, row) => drawBar(app, line, row, range()),
  });
  view.noun = "request";
  view.element.append(foot);
  view.list.element.addEventListener("wheel", wheel, { passive: false });
  top.canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoomAt(event, top.canvas, [0, overview.end]); }, { passive: false });
  top.canvas.addEventListener("pointerdown", begin);
  top.canvas.addEventListener("pointermove", (event) => { if (drag) { drag.to = moment(event); top.redraw(); } });
  top.canvas.addEventListener("pointerup", end);
  top.canvas.addEventListener("dblclick", () => zoom(undefined, undefined));

  function moment(event) {
    const box = top.canvas.getBoundingClientRect();
    const part = (event.clientX - box.left) / box.width;
    return Math.min(1, Math.max(0, part)) * overview.end;
  }

  function begin(event) {
    top.canvas.setPointerCapture(event.pointerId);
    drag = { from: moment(event), to: moment(event) };
  }

  function end() {
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    drag = null;
    // A click without a drag is not a selection.
    if (to - from > overview.end / 400) zoom(from, to);
    else top.redraw();
  }

  function wheel(event) {
    if (event.shiftKey) {
      event.preventDefault();
      const [from, to] = range();
      const distance = Math.sign(event.deltaY || event.deltaX) * (to - from) * 0.1;
      const shift = Math.max(-from, Math.min(distance, overview.end - to));
      zoom(from + shift, to + shift);
    } else if (event.ctrlKey) {
      event.preventDefault();
      zoomAt(event, axis.canvas, range());
    }
  }

  // Zooms around the moment under the pointer.
  function zoomAt(event, canvas, [left, right]) {
    const box = canvas.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const center = left + part * (right - left);
    const [from, to] = range();
    const factor = event.deltaY > 0 ? 1.25 : 0.8;
    zoom(Math.max(0, center - (center - from) * factor), Math.min(overview.end, center + (to - center) * factor));
  }

  function zoom(from, to) {
    const isWhole = from === undefined || (from <= 0 && to >= overview.end);
    if (!isWhole && to - from < LEAST_SPAN) return;
    state.set(isWhole ? { from: undefined, to: undefined } : { from: Math.floor(from), to: Math.ceil(to) });
  }

  function drawOverview(context, width, height) {
    const most = Math.max(1, ...overview.buckets.map((it) => it.count));
    const step = width / Math.max(1, overview.buckets.length);
    const base = height - 14;
    overview.buckets.forEach(({ count, errors, late }, index) => {
      if (count === 0) return;
      // A square root, so that one record beside a thousand stays visible.
      const tall = (value) => (value === 0 ? 0 : Math.max(2, Math.sqrt(value / most) * (base - 4)));
      context.fillStyle = color("bar");
      context.fillRect(index * step, base - tall(count), Math.max(1, step - 0.5), tall(count));
      context.fillStyle = color("red");
      context.fillRect(index * step, base - tall(errors), Math.max(1, step - 0.5), tall(errors));
      // Above the bars, because late requests are few.
      context.fillStyle = color("amber");
      if (late) context.fillRect(index * step - 1, 0, Math.max(3, step), 4);
    });
    context.fillStyle = color("muted");
    const found = ticks(0, overview.end, width / 110);
    for (const tick of found) {
      const at = (tick / overview.end) * width;
      context.fillRect(at, base, 1, 3);
      if (at < width - 50) context.fillText(tickLabel(tick, found[1] - found[0] || tick || 1), at + 3, height - 3);
    }
    const [from, to] = drag ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] : range();
    const [left, right] = [(from / overview.end) * width, (to / overview.end) * width];
    context.fillStyle = color("veil");
    context.fillRect(0, 0, left, base);
    context.fillRect(right, 0, width - right, base);
    context.fillStyle = color("accent");
    if (left > 0) context.fillRect(left - 1, 0, 2, base);
    if (right < width) context.fillRect(right - 1, 0, 2, base);
  }

  function drawAxis(context, width, height) {
    const [from, to] = range();
    const found = ticks(from, to, width / 90);
    context.fillStyle = color("muted");
    for (const tick of found) {
      const at = ((tick - from) / (to - from)) * width;
      context.fillRect(at, height - 5, 1, 5);
      if (at < width - 40) context.fillText(tickLabel(tick, found[1] - found[0] || 1), at + 3, height - 7);
    }
  }

  async function load() {
    try {
      overview = await app.rpc.call("overview", { session: app.session, buckets: BUCKETS, late: lateAfter() });
    } catch {
      return;
    }
    redraw();
  }

  function redraw() {
    top.redraw();
    axis.redraw();
    const [from, to] = range();
    put(span, state.get("from") === undefined ? `${duration(overview.end)} in all` : `${duration(to - from)} of ${duration(overview.end)}`);
    whole.hidden = state.get("from") === undefined;
    view.redraw();
  }

  const refresh = view.refresh.bind(view);
  view.refresh = () => { load(); refresh(); };
  view.ranged = () => { view.reload(); redraw(); };
  view.zoom = (factor) => {
    const [from, to] = range();
    const [center, half] = [(from + to) / 2, ((to - from) / 2) * factor];
    zoom(Math.max(0, center - half), Math.min(overview.end, center + half));
  };
  const close = view.close.bind(view);
  view.close = () => { top.close(); axis.close(); close(); };
  load();
  return view;
}

function drawBar(app, line, row, [from, to]) {
  const [method, took, lane] = cells(line, CLASSES);
  line.classList.add("lane-grid");
  if (!lane.firstChild) lane.append(h("i", { class: "bar" }), h("em"));
  const [bar, note] = lane.children;
  bar.hidden = !row;
  if (!row) {
    text(method, "");
    text(took, "");
    text(note, "");
    return;
  }
  line.dataset.state = fate(row);
  line.dataset.dir = row.dir;
  const length = row.took ?? (row.state === "pending" ? app.elapsedSince(row.at) : Math.max(0, app.endOfTrace - row.at));
  const part = (at) => Math.min(100, Math.max(0, ((at - from) / (to - from)) * 100));
  const [left, right] = [part(row.at), part(row.at + length)];
  bar.style.left = `${left}%`;
  bar.style.width = `max(3px, ${right - left}%)`;
  text(method, visible(row.method ?? ""));
  method.title = `${visible(row.method ?? "")} #${integer(row.seq)}`;
  text(took, duration(row.took ?? (row.state === "pending" ? length : undefined)));
  text(note, row.state === "ok" ? "" : STATES[row.state] ?? "");
  // Beside the bar, on the side with more room.
  const after = right < 70;
  note.style.left = after ? `calc(${right}% + 8px)` : "";
  note.style.right = after ? "" : `calc(${100 - left}% + 6px)`;
}
