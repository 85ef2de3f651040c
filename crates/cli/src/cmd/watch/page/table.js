// The table: every record, one line each.

import { h, visible } from "./dom.js";
import { DIRECTIONS, STATES, fate, bytes, duration, integer, moment } from "./format.js";
import { RecordList, cells, drawHead, isNarrow, order, text } from "./records.js";
import { state } from "./state.js";

const COLUMNS = [
  ["seq num", "#", "Number of the record in the trace"],
  ["at num", "Time", "Seconds since the start of the session: in this order", "time"],
  ["dir", "", "Direction"],
  ["kind", "Kind"],
  ["id num", "Id"],
  ["method", "Method"],
  ["brief", "Content"],
  ["took num", "Took", "Time from the request to its answer: slowest first", "took"],
  ["size num", "Size", "Size of the body"],
];
const CLASSES = COLUMNS.map(([name]) => name);

/** The label of a record's kind, with the state of a request if it is not simply answered. */
export function kindLabel(row) {
  if (row.kind === "request" && !["ok", "error", "late"].includes(fate(row))) return STATES[fate(row)];
  return row.kind;
}

export function tableView(app) {
  const head = h("div", { class: "head row-grid", role: "row" });
  const view = new RecordList(app, {
    height: isNarrow() ? 42 : 24,
    label: "Records",
    className: "table",
    head,
    query: () => ({ session: app.session, filter: state.get("filter") ?? "", only: "all", sort: order() }),
    follows: () => order() === "time",
    draw: drawRow,
  });
  drawHead(head, COLUMNS, view);
  return view;
}

export function drawRow(line, row) {
  const [seq, at, dir, kind, id, method, brief, took, size] = cells(line, CLASSES);
  line.classList.add("row-grid");
  if (!row) {
    for (const cell of line.children) text(cell, "");
    return;
  }
  line.dataset.state = fate(row);
  line.dataset.dir = row.dir;
  line.classList.toggle("plain", row.method === undefined);
  text(seq, integer(row.seq));
  text(at, moment(row.at, 3));
  text(dir, DIRECTIONS[row.dir]?.arrow ?? "");
  dir.title = DIRECTIONS[row.dir]?.name ?? "";
  text(kind, kindLabel(row));
  text(id, row.id === undefined ? "" : visible(row.id));
  text(method, row.method === undefined ? "" : visible(row.method));
  text(brief, row.brief === undefined ? "" : visible(row.brief));
  text(took, duration(row.took));
  text(size, row.size ? bytes(row.size) : "");
}
