// Pairs: each request with the fate of its answer. Pending requests have a running clock.

import { h, put, visible } from "./dom.js";
import { DIRECTIONS, STATES, fate, bytes, duration, integer, moment } from "./format.js";
import { RecordList, cells, isNarrow, text } from "./records.js";
import { state } from "./state.js";

const COLUMNS = [
  ["seq num", "#", ""],
  ["at num", "Sent", "time"],
  ["dir", "", ""],
  ["method", "Method", ""],
  ["id num", "Id", ""],
  ["state", "Answer", ""],
  ["took num", "Took", "took"],
  ["size num", "Answer size", ""],
];
const CLASSES = COLUMNS.map(([name]) => name);
const CHIPS = ["", "pending", "late", "cancelled", "unanswered", "error"];

const chosen = () => CHIPS.find((name) => name && name === state.get("fate"));

export function pairsView(app) {
  const chips = h("div", { class: "chips", role: "group", "aria-label": "State of the answer" });
  const head = h("div", { class: "head pair-grid", role: "row" });
  const view = new RecordList(app, {
    height: isNarrow() ? 42 : 24,
    label: "Pairs of request and answer",
    className: "pairs",
    head: [chips, head],
    query: () => ({
      session: app.session,
      filter: state.get("filter") ?? "",
      only: "requests",
      sort: state.get("sort") === "took" ? "took" : "time",
      state: chosen(),
    }),
    follows: false,
    emptyText: () => [
      h("b", {}, chosen() ? `No request has the state “${STATES[chosen()]}”` : "No requests"),
      h("p", {}, chosen() ? "Choose another state above." : "This trace has no requests."),
    ],
    draw: (line, row) => drawPair(app, line, row),
  });

  function drawHead() {
    put(head, COLUMNS.map(([name, label, sort]) => {
      if (!sort) return h("span", { class: name, role: "columnheader" }, label);
      const active = (state.get("sort") ?? "time") === sort;
      return h("span", { class: name, role: "columnheader", "aria-sort": active ? (sort === "took" ? "descending" : "ascending") : "none" },
        h("button", { type: "button", class: "sort", title: sort === "took" ? "Slowest first" : "In the order of sending",
          onclick: () => { state.set({ sort: sort === "took" ? "took" : undefined }); drawHead(); view.reload(); } },
        label, active ? (sort === "took" ? " ↓" : " ↑") : ""));
    }));
  }

  function drawChips() {
    const counts = app.summary?.states ?? {};
    const all = ["ok", "error", "pending", "cancelled", "unanswered"].reduce((sum, name) => sum + (counts[name] ?? 0), 0);
    put(chips, CHIPS.map((name) => h("button", {
      type: "button", class: `chip s-${name || "all"}`, "aria-pressed": (chosen() ?? "") === name,
      onclick: () => { state.set({ fate: name || undefined }); drawChips(); view.reload(); },
    }, name ? STATES[name] : "all", h("i", { class: "num" }, integer(name ? counts[name] ?? 0 : all)))));
  }

  view.noun = "request";
  drawHead();
  drawChips();
  // A running clock for what is pending, without asking the server.
  const ticking = setInterval(() => view.redraw(), 100);
  const close = view.close.bind(view);
  view.close = () => { clearInterval(ticking); close(); };
  view.summary = drawChips;
  return view;
}

function drawPair(app, line, row) {
  const [seq, at, dir, method, id, answer, took, size] = cells(line, CLASSES);
  line.classList.add("pair-grid");
  if (!row) {
    for (const cell of line.children) text(cell, "");
    return;
  }
  line.dataset.state = fate(row);
  line.dataset.dir = row.dir;
  text(seq, integer(row.seq));
  text(at, moment(row.at, 3));
  text(dir, DIRECTIONS[row.dir]?.arrow ?? "");
  text(method, visible(row.method ?? ""));
  text(id, visible(row.id ?? ""));
  text(answer, STATES[fate(row)] ?? "");
  text(took, row.state === "pending" ? duration(app.elapsedSince(row.at)) : duration(row.took));
  text(size, bytes(row.answerSize));
}
