// Pairs: each request with the fate of its answer. Pending requests have a running clock.

import { h, visible } from "./dom.js";
import { DIRECTIONS, STATES, fate, bytes, duration, integer, moment } from "./format.js";
import { RecordList, cells, drawHead, isNarrow, order, text } from "./records.js";
import { state } from "./state.js";

const COLUMNS = [
  ["seq num", "#", "Number of the request in the trace"],
  ["at num", "Sent", "In the order of sending", "time"],
  ["dir", "", "Direction"],
  ["method", "Method"],
  ["brief", "Params"],
  ["id num", "Id"],
  ["state", "Answer"],
  ["took num", "Took", "Slowest first", "took"],
  ["size num", "Answer size", "Size of the answer's body"],
];
const CLASSES = COLUMNS.map(([name]) => name);

export function pairsView(app) {
  const head = h("div", { class: "head pair-grid", role: "row" });
  const view = new RecordList(app, {
    height: isNarrow() ? 42 : 24,
    label: "Pairs of request and answer",
    className: "pairs",
    head,
    query: () => ({ session: app.session, filter: state.get("filter") ?? "", only: "requests", sort: order() }),
    follows: () => false,
    emptyText: () => [h("b", {}, "No requests"), h("p", {}, "This trace has no requests.")],
    draw: (line, row) => drawPair(app, line, row),
  });

  view.noun = "request";
  drawHead(head, COLUMNS, view);
  // A running clock for what is pending, without asking the server.
  const ticking = setInterval(() => view.redraw(), 100);
  const close = view.close.bind(view);
  view.close = () => { clearInterval(ticking); close(); };
  return view;
}

function drawPair(app, line, row) {
  const [seq, at, dir, method, params, id, answer, took, size] = cells(line, CLASSES);
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
  text(params, visible(row.brief ?? ""));
  text(id, visible(row.id ?? ""));
  text(answer, STATES[fate(row)] ?? "");
  text(took, row.state === "pending" ? duration(app.elapsedSince(row.at)) : duration(row.took));
  text(size, bytes(row.answerSize));
}
