// The sequence diagram: two lifelines, and an arrow for each message. It is a virtual list as well, so it has no limit.

import { h, s, put, visible } from "./dom.js";
import { bytes, duration, fate, integer, moment } from "./format.js";
import { RecordList, text } from "./records.js";
import { state } from "./state.js";

const HEIGHT = 34;

export function sequenceView(app) {
  const server = h("span", { class: "actor server" });
  const head = h("div", { class: "head seq-grid" },
    h("span", { class: "at num" }, "Time"),
    h("span", { class: "stage" }, h("span", { class: "actor client" }, "Client"), server));
  const view = new RecordList(app, {
    height: HEIGHT,
    label: "Sequence diagram",
    className: "sequence",
    head,
    query: () => ({ session: app.session, filter: state.get("filter") ?? "", only: "all" }),
    draw: (line, row, position) => draw(line, row, view?.list.rows.at(position - 1)),
  });
  view.summary = () => put(server, visible(app.sessionInfo?.program ?? "Server"));
  view.summary();
  return view;
}

function build(line) {
  const arrow = s("svg", { class: "arrow", preserveAspectRatio: "none", viewBox: "0 0 100 10", "aria-hidden": "true" },
    s("line", { x1: 0, y1: 5, x2: 100, y2: 5, "vector-effect": "non-scaling-stroke" }));
  put(line,
    h("span", { class: "at num" }, h("b"), h("i")),
    h("span", { class: "stage" }, h("span", { class: "lifeline client" }), h("span", { class: "lifeline server" }),
      h("span", { class: "message" }, h("span", { class: "words" }, h("b"), h("i")), arrow, h("span", { class: "tip" }))));
}

function draw(line, row, before) {
  line.classList.add("seq-grid");
  if (!line.querySelector(".stage")) build(line);
  const [at, gap] = line.children[0].children;
  const message = line.querySelector(".message");
  message.hidden = !row;
  text(at, row ? moment(row.at, 3) : "");
  const pause = row && before ? row.at - before.at : 0;
  // Only a pause that a person would notice.
  text(gap, pause >= 100_000 ? `+${duration(pause)}` : "");
  line.classList.toggle("pause", pause >= 1_000_000);
  if (!row) return;
  line.dataset.dir = row.dir;
  line.dataset.kind = row.kind;
  line.dataset.state = fate(row);
  const [name, note] = line.querySelector(".words").children;
  text(name, visible(row.method ?? (row.dir === "err" ? row.brief ?? "" : row.kind)));
  const parts = [];
  if (row.id !== undefined) parts.push(`id ${visible(row.id)}`);
  if (row.kind === "response" || row.kind === "error") parts.push(row.kind === "error" ? "error" : "result");
  if (row.took !== undefined && row.kind !== "request") parts.push(duration(row.took));
  if (row.kind === "noise" || row.kind === "fault" || row.kind === "exit" || row.kind === "loss") parts.push(visible(row.brief ?? ""));
  else if (row.size !== undefined && row.dir !== "err") parts.push(bytes(row.size));
  text(note, parts.join(" · "));
  line.title = `#${integer(row.seq)}`;
}
