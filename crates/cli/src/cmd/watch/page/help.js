// The help: keys, and the filter language.

import { $, h, put } from "./dom.js";

const KEYS = [
  ["/", "Edit the filter"],
  ["1 … 5", "Table, pairs, timeline, sequence, statistics"],
  ["j k", "Next and previous record; also ↓ ↑, PgDn PgUp"],
  ["g G", "First and last record; also Home End"],
  ["Enter", "Open the record"],
  ["p", "Open its request or its answer"],
  ["m", "Use the record as the base of a diff"],
  ["Esc", "Close the record, then clear the filter"],
  ["f", "Follow new records"],
  ["+ − 0", "Zoom the timeline, show all of it"],
  ["t", "Light or dark"],
  ["?", "This help"],
];

const TERMS = [
  ["method:text*", "the method; * stands for any characters"],
  ["dir:s2c", "c2s, s2c, err (stderr) or tap"],
  ["kind:error", "request, notification, response, error, noise, stderr, …"],
  ["id:7", "the id"],
  ["took:>100ms", "slower than; also <, and the units us, ms, s, m"],
  ["size:>10k", "larger than; also <, and k, M, G"],
  ["at:<2s", "the time since the start"],
  ["seq:17", "the number of the record; also < and >"],
  ['text:"foo"', "text in the body; also foo alone"],
  ["is:pending", "pending, late, cancelled, failed, unanswered or noise"],
  ["a b", "both"],
  ["a | b", "one of them"],
  ["-a", "not"],
  ["(a | b) c", "a group"],
];

/** Opens the help, or closes it. */
export function toggleHelp() {
  const box = $("help-box");
  if (box.open) return box.close();
  const list = (rows, cell) => h("dl", { class: "keys" }, rows.map(([key, what]) => [h("dt", {}, cell(key)), h("dd", {}, what)]));
  put(box,
    h("header", {}, h("h2", {}, "Keys and filters"),
      h("button", { type: "button", class: "quiet icon", "aria-label": "Close", onclick: () => box.close() }, "✕")),
    h("div", { class: "columns" },
      h("section", {}, h("h3", {}, "Keys"), list(KEYS, (key) => key.split(" ").map((it) => (it === "…" ? it : h("kbd", {}, it))))),
      h("section", {}, h("h3", {}, "Filter"), list(TERMS, (term) => h("code", {}, term)))));
  box.onclick = (event) => { if (event.target === box) box.close(); };
  box.showModal();
}
