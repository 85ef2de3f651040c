// The detail of one record: its fields, its partner, and its body as a tree, raw, in hex, or compared with another one.

import { $, copy, h, marked, put, visible } from "./dom.js";
import { DIRECTIONS, STATES, bytes, clock, duration, fate, integer, moment, shell } from "./format.js";
import { Body, WHOLE, hexView, rawView } from "./body.js";
import { differences, member, parse, print } from "./json.js";
import { lateAfter, state } from "./state.js";
import { tree } from "./tree.js";

const TABS = { tree: "Tree", raw: "Raw", hex: "Hex", diff: "Diff" };
/** The longest params that fit on a command line. */
const LONGEST_PARAMS = 100_000;

export class Detail {
  #app;
  #shown;
  #record;
  #turn = 0;

  constructor(app) {
    this.#app = app;
    this.box = $("detail");
    this.content = h("div", { class: "body", tabindex: 0 });
  }

  /** Shows the record of the state, or nothing. */
  async update() {
    const [session, record] = [this.#app.session, state.get("record")];
    const isOpen = record !== undefined && session !== undefined && this.#app.isDetailOpen;
    this.box.hidden = $("splitter").hidden = !isOpen;
    document.body.classList.toggle("with-detail", isOpen);
    if (!isOpen) return;
    const wanted = `${session} ${record} ${state.get("tab")} ${state.get("base")}`;
    if (wanted === this.#shown) return;
    this.#shown = wanted;
    const turn = ++this.#turn;
    try {
      const found = await this.#app.rpc.call("record", { session, record, late: lateAfter() });
      if (turn !== this.#turn) return;
      this.#record = found;
      this.#drawFrame(found);
      await this.#drawBody(found, turn);
    } catch (error) {
      if (turn !== this.#turn) return;
      this.#shown = undefined;
      put(this.box, h("div", { class: "detail-head" }, h("b", {}, `Record ${record}`), this.#closeButton()),
        h("div", { class: "empty" }, h("b", {}, "Cannot show this record"), h("p", {}, error.message)));
    }
  }

  /** Asks again: the answer of a pending request may have come. */
  refresh() {
    if (this.#record?.state !== "pending") return;
    this.#shown = undefined;
    this.update();
  }

  /** Opens the other half of the pair. */
  openPartner() {
    const partner = this.#record?.of ?? this.#record?.answer;
    if (partner !== undefined) this.#app.openRecord(partner);
  }

  setBase() {
    if (this.#record) state.set({ base: this.#record.n, tab: "diff" });
  }

  #closeButton() {
    return h("button", { type: "button", class: "quiet icon", title: "Close (Esc)", "aria-label": "Close", onclick: () => this.#app.closeDetail() }, "✕");
  }

  #drawFrame(row) {
    const tab = TABS[state.get("tab")] ? state.get("tab") : "tree";
    const link = (record, words) => h("button", { type: "button", class: "link", onclick: () => this.#app.openRecord(record) }, words);
    const fields = [
      ["Time", [moment(row.at), " s", h("span", { class: "muted" }, ` ${clock(this.#app.sessionInfo.started + row.at / 1000)}`)]],
      row.first !== undefined && ["First byte", `${duration(row.at - row.first)} before the last`],
      ["Direction", DIRECTIONS[row.dir]?.name ?? row.dir],
      row.id !== undefined && ["Id", h("code", {}, visible(row.id))],
      row.state && ["Answer", [h("span", { class: `fate s-${fate(row)}` }, STATES[fate(row)]),
        row.answer !== undefined && [" ", link(row.answer, "open")]]],
      row.of !== undefined && ["Answers", link(row.of, visible(row.method ?? `record ${row.of}`))],
      row.took !== undefined && ["Took", duration(row.took)],
      ["Size", row.size >= 1000 ? `${bytes(row.size)} (${integer(row.size)} bytes)` : bytes(row.size)],
      ...(row.notes ?? []).map(([name, value]) => [visible(name), visible(value)]),
    ].filter(Boolean);
    const command = callCommand;
    put(this.box,
      h("div", { class: "detail-head" },
        h("span", { class: `kind k-${row.kind}` }, row.kind),
        h("b", { class: "title", title: visible(row.method ?? "") }, visible(row.method ?? `#${row.seq}`)),
        h("span", { class: "muted num" }, `#${integer(row.seq)}`), this.#closeButton()),
      h("dl", { class: "fields" }, fields.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      h("div", { class: "tabs", role: "tablist" },
        Object.entries(TABS).map(([name, label]) => h("button", { type: "button", role: "tab", "aria-selected": name === tab,
          onclick: () => state.set({ tab: name }) }, label)),
        h("span", { class: "spacer" }),
        h("button", { type: "button", class: "quiet", title: "Copy the body", onclick: () => this.#copyBody() }, "Copy"),
        h("button", { type: "button", class: "quiet", disabled: !isCallable(row),
          title: isCallable(row) ? "Copy as a duet-rpc call command" : "Only requests and notifications of the client can be called again",
          onclick: () => this.#copyCall(command) }, "Copy as call")),
      this.content);
    put(this.content, h("div", { class: "empty" }, "Loading…"));
  }

  async #drawBody(row, turn) {
    const tab = state.get("tab") ?? "tree";
    const body = new Body(this.#app.rpc, this.#app.session, row.n, row.body);
    this.body = body;
    const shown = await this.#view(tab, row, body);
    if (turn === this.#turn) put(this.content, shown);
  }

  async #view(tab, row, body) {
    if (!body.total) return h("div", { class: "empty" }, "This record has no body.");
    if (tab === "hex") return hexView(body);
    if (tab === "diff") return this.#diff(row, body);
    if (tab === "raw" || row.form !== "json") return rawView(body);
    if (body.total > WHOLE) {
      return [h("p", { class: "note" }, `The tree is for bodies up to ${bytes(WHOLE)}; this one has ${bytes(body.total)}. Its beginning:`), await rawView(body)];
    }
    try {
      return tree(parse(await body.text()));
    } catch (error) {
      return [h("p", { class: "note bad" }, error.message), await rawView(body)];
    }
  }

  async #diff(row, body) {
    const call = (method, params) => this.#app.rpc.call(method, { session: this.#app.session, ...params });
    const base = state.get("base");
    const isBase = base === undefined || base === row.n;
    const previous = await call("previous", { record: row.n });
    const other = isBase ? null : await call("record", { record: base, late: lateAfter() });
    const choices = h("p", { class: "note" },
      other && ["Compared with ", h("button", { type: "button", class: "link", onclick: () => this.#app.openRecord(base) }, `#${integer(other.seq)}`), ". "],
      previous.record !== undefined && h("button", { type: "button", class: "link", onclick: () => state.set({ base: previous.record }) }, "Compare with the previous one of this method"),
      previous.record !== undefined && " · ",
      h("button", { type: "button", class: "link", onclick: () => state.set({ base: row.n }) }, "Use this record as the base"), " (m)");
    if (!other) {
      return [choices, h("div", { class: "empty" }, h("b", {}, base === row.n ? "This record is the base" : "Nothing to compare with"),
        h("p", {}, "Choose a base with the links above, then open the record to compare."))];
    }
    const old = await new Body(this.#app.rpc, this.#app.session, base, other.body).text();
    const now = await body.text();
    if (old === null || now === null) return [choices, h("p", { class: "note" }, `Bodies over ${bytes(WHOLE)} are not compared.`)];
    let found;
    try {
      found = differences(parse(old), parse(now));
    } catch {
      found = old === now ? [] : [{ path: "", old: { type: "string", value: old }, new: { type: "string", value: now } }];
    }
    if (found.length === 0) return [choices, h("div", { class: "empty" }, h("b", {}, "No difference"))];
    const show = (sign, node) => node && h("pre", { class: sign === "+" ? "added" : "removed" }, `${sign} `, marked(print(node, 2).slice(0, 20_000), "\n"));
    return [choices, h("div", { class: "diff" }, found.slice(0, 500).map((it) =>
      h("section", {}, h("code", { class: "path" }, visible(it.path || "/")), show("-", it.old), show("+", it.new)))),
      found.length > 500 && h("p", { class: "note" }, `${integer(found.length - 500)} more differences are not shown.`)];
  }

  async #copyBody() {
    const whole = await this.body?.text();
    if (whole === null || whole === undefined) return copy("", `Nothing: bodies over ${bytes(WHOLE)} are not`);
    copy(whole, "Body");
  }

  async #copyCall(command) {
    const whole = await this.body?.text();
    const text = whole ? command(parse(whole), this.#record, this.#app.sessionInfo) : null;
    if (text) copy(text, "Command");
    else copy("", "Nothing: the params are too long for a command line and were not");
  }
}

const isCallable = (row) => row.dir === "c2s" && (row.kind === "request" || row.kind === "notification") && row.form === "json";

/** The command that sends a message again: to a new server of the same kind, or to the address of the server. */
export function callCommand(message, row, session) {
  const method = member(message, "method");
  const params = member(message, "params");
  const shown = params ? print(params) : "";
  if (!method || shown.length > LONGEST_PARAMS) return null;
  const words = ["duet-rpc", "call"];
  if (session.connect) words.push("--connect", session.connect);
  if (row.kind === "notification") words.push("--notify");
  // WebSocket and HTTP have no other framing.
  if (row.framing && !["ndjson", "ws", "http"].includes(row.framing)) words.push("--framing", row.framing);
  words.push(method.value, ...(params ? [shown] : []));
  if (session.command?.length) words.push("--", ...session.command);
  return words.map(shell).join(" ");
}
