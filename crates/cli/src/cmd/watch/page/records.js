// What the list views share: the rows of a query, the cursor, following, and the messages for an empty list.

import { h, put, $ } from "./dom.js";
import { List } from "./list.js";
import { Rows } from "./rows.js";
import { lateAfter, state } from "./state.js";
import { integer } from "./format.js";

export class RecordList {
  #app;
  #position = -1;
  #next;
  #shown;

  /** `options`: the height of a row, `draw`, the label, and `query`, a function that returns params for `rows`. */
  constructor(app, options) {
    this.#app = app;
    this.options = options;
    this.list = new List({
      ...options,
      draw: (line, row, position) => {
        const selected = row !== undefined && row.n === state.get("record");
        line.className = `row${row ? ` k-${row.kind}` : " loading"}${selected ? " selected" : ""}${position % 2 ? " odd" : ""}`;
        line.setAttribute("aria-selected", selected);
        options.draw(line, row, position);
      },
      open: (position) => this.open(position),
    });
    this.empty = h("div", { class: "empty", hidden: true });
    this.element = h("div", { class: "list-box" }, options.head, this.list.element, this.empty);
    this.reload();
  }

  /** Starts again with the query of now. The rows of before stay until the new ones are there, and while the filter
   * has a mistake. */
  reload() {
    this.#next?.close();
    const rows = new Rows(this.#app.rpc, { ...this.options.query(), late: lateAfter() });
    rows.addEventListener("change", () => this.#changed(rows));
    this.#next = rows;
  }

  #replace(rows) {
    this.list.rows?.close();
    this.#next = undefined;
    this.list.follows = this.#mayFollow;
    this.#shown = undefined;
    this.list.rows = rows;
  }

  refresh() {
    this.list.follows = this.#mayFollow && (this.list.follows || this.list.isAtEnd);
    (this.#next ?? this.list.rows)?.refresh();
  }

  redraw() {
    this.list.render();
  }

  close() {
    this.#next?.close();
    this.list.rows?.close();
    this.list.close();
  }

  /** Moves the cursor, and shows the record if the detail is open. */
  async move(distance) {
    const rows = this.list.rows;
    if (!rows?.total) return;
    if (this.#position < 0 || rows.at(this.#position)?.n !== state.get("record")) {
      const record = state.get("record");
      this.#position = record === undefined ? -1 : await rows.locate(record).catch(() => -1);
    }
    const begin = this.#position < 0 && distance < 0 ? rows.total : this.#position;
    this.#position = Math.min(Math.max(0, begin + distance), rows.total - 1);
    if (Math.abs(distance) < rows.total) this.list.follows = false;
    this.list.reveal(this.#position);
    const row = rows.at(this.#position) ?? (await this.#arrival(this.#position));
    if (row) state.set({ record: row.n });
  }

  open(position) {
    this.#position = position;
    this.list.follows = false;
    const row = this.list.rows.at(position);
    if (row) this.#app.openRecord(row.n);
    this.list.element.focus({ preventScroll: true });
  }

  // A session that is over is read from its beginning.
  get #mayFollow() {
    return this.#app.follows && (this.options.follows?.() ?? true) && this.#app.sessionInfo?.state === "running";
  }

  #arrival(position) {
    const rows = this.list.rows;
    return new Promise((resolve) => {
      const check = () => {
        const row = rows.at(position);
        if (row === undefined && !rows.error) return;
        rows.removeEventListener("change", check);
        resolve(row);
      };
      rows.addEventListener("change", check);
    });
  }

  async #changed(rows) {
    if (rows !== this.list.rows && rows !== this.#next) return;
    this.#app.report(rows);
    if (rows === this.#next && rows.isLoaded) this.#replace(rows);
    if (!this.list.rows && rows.error) this.#showMistake();
    if (rows !== this.list.rows) return;
    this.list.render();
    const isEmpty = rows.isLoaded && rows.total === 0 && !(rows.scanned < rows.records);
    this.empty.hidden = !isEmpty;
    if (isEmpty) put(this.empty, this.#emptyText(rows));
    // A link to a record shows the record in its place.
    const record = state.get("record");
    if (rows.isLoaded && this.#shown === undefined && record !== undefined) {
      this.#shown = record;
      const position = await rows.locate(record).catch(() => -1);
      if (position < 0 || rows !== this.list.rows) return;
      this.#position = position;
      this.list.follows = false;
      this.list.center(position);
    }
  }

  #emptyText(rows) {
    if (rows.records === 0) {
      return [h("b", {}, "No records yet"), h("p", {}, "The page shows them as soon as the tap writes them.")];
    }
    if (this.options.emptyText && !state.get("filter")) return this.options.emptyText();
    if (this.noun === "request") {
      return [
        h("b", {}, "No match"),
        h("p", {}, "No request matches the filter. Other records may: they are in the table."),
        h("button", { type: "button", onclick: () => state.set({ view: "table" }, true) }, "Show the table"), " ",
        this.#clearButton(),
      ];
    }
    return [
      h("b", {}, "No match"),
      h("p", {}, `None of ${integer(rows.records)} records matches the filter.`),
      this.#clearButton(),
    ];
  }

  #showMistake() {
    if (!state.get("filter")) return;
    this.empty.hidden = false;
    put(this.empty, h("b", {}, "The filter has a mistake"), h("p", {}, "The line above says where. Press ? for the filter language."), this.#clearButton());
  }

  #clearButton() {
    const clear = () => {
      state.set({ from: undefined, to: undefined });
      this.#app.clearFilter();
    };
    return h("button", { type: "button", onclick: clear }, "Clear the filter");
  }
}

/** The head of a list. Each column has a class, a label, a title and perhaps the order that a click on it sets. */
export function drawHead(head, columns, view) {
  put(head, columns.map(([name, label, title, sort]) => {
    if (!sort) return h("span", { class: name, role: "columnheader", title }, label);
    const active = order() === sort;
    const choose = () => {
      state.set({ sort: sort === "took" ? "took" : undefined });
      drawHead(head, columns, view);
      view.reload();
    };
    return h("span", { class: name, role: "columnheader", "aria-sort": active ? (sort === "took" ? "descending" : "ascending") : "none" },
      h("button", { type: "button", class: "sort", title, onclick: choose }, label, active ? (sort === "took" ? " ↓" : " ↑") : ""));
  }));
}

/** The order of a list. */
export const order = () => (state.get("sort") === "took" ? "took" : "time");

/** On a phone, a row has two lines. */
export const isNarrow = () => matchMedia("(max-width: 640px)").matches;

/** The cells of a row, made once and filled again and again. */
export function cells(line, classes) {
  if (line.childElementCount !== classes.length || line.firstElementChild?.className !== classes[0]) {
    put(line, classes.map((name) => h("span", { class: name, role: "gridcell" })));
  }
  return line.children;
}

/** Sets the text of a cell without touching the page if it is the same. */
export function text(cell, value) {
  if (cell.textContent !== value) cell.textContent = value;
}
