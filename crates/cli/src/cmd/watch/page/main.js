// The page: connects, keeps the state of the URL and the views together, and handles keys.

import { $, h, put, visible } from "./dom.js";
import { Detail } from "./detail.js";
import { duration, integer, plural } from "./format.js";
import { toggleHelp } from "./help.js";
import { keyboard } from "./keys.js";
import { pairsView } from "./pairs.js";
import { order } from "./records.js";
import { ConnectionLost, Rpc } from "./rpc.js";
import { sequenceView } from "./sequence.js";
import { Sessions } from "./sessions.js";
import { LATE, VIEWS, lateAfter, state } from "./state.js";
import { statsView } from "./stats.js";
import { tableView } from "./table.js";
import { split, toggle } from "./terms.js";
import { timelineView } from "./timeline.js";

const MAKERS = { table: tableView, pairs: pairsView, timeline: timelineView, sequence: sequenceView, stats: statsView };
const LABELS = { table: "Table", pairs: "Pairs", timeline: "Timeline", sequence: "Sequence", stats: "Statistics" };
// Label, filter, number in the summary. Those whose records are not requests show the table. One of them is on at a
// time: hardly any record is of two kinds.
const QUICK = [
  ["Errors", "is:failed", (it) => it.states.error],
  ["Pending", "is:pending", (it) => it.states.pending],
  ["No answer", "is:unanswered", (it) => it.states.unanswered],
  ["Cancelled", "is:cancelled", (it) => it.states.cancelled],
  ["Late", "is:late", (it) => it.states.late],
  ["Noise", "is:noise", (it) => it.noise, "table"],
  ["stderr", "dir:err", () => 0, "table"],
];

const QUICK_TERMS = QUICK.map(([, filter]) => filter);
// The choices for the time after which an answer is late, in ms.
const LATE_AFTER = [10, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000];

const SHORTEST_REST = 100;

class App {
  sessions = [];
  summary = null;
  follows = true;
  isDetailOpen = state.get("record") !== undefined;
  #version = 0;
  #view = null;
  #failures = 0;
  #poll = 0;

  constructor() {
    // The token has become a cookie, and does not belong into the address bar and the history.
    if (location.search) history.replaceState(null, "", `/${location.hash}`);
    this.rpc = new Rpc(`ws://${location.host}/rpc`);
    this.menu = new Sessions(this);
    this.detail = new Detail(this);
    this.rpc.addEventListener("open", () => this.#opened());
    this.rpc.addEventListener("lost", (event) => this.#lost(event.detail.wait));
    state.addEventListener("visit", () => (this.isDetailOpen = state.get("record") !== undefined));
    state.addEventListener("change", (event) => this.#changed(event.detail));
    this.#drawBar();
    keyboard(this);
  }

  get session() {
    const wanted = state.get("session");
    return this.sessions.some((it) => it.key === wanted) ? wanted : this.sessions[0]?.key;
  }

  get sessionInfo() {
    return this.sessions.find((it) => it.key === this.session);
  }

  get view() {
    return this.#view;
  }

  /** The last moment of the trace, in µs since its start. */
  get endOfTrace() {
    return this.summary?.end ?? 0;
  }

  /** The time since a moment of the session: until now if it runs, otherwise until its end. */
  elapsedSince(at) {
    const info = this.sessionInfo;
    const now = info?.state === "running" ? (Date.now() - info.started) * 1000 : this.endOfTrace;
    return Math.max(0, now - at);
  }

  choose(session) {
    this.isDetailOpen = false;
    state.set({ session, record: undefined, base: undefined, from: undefined, to: undefined }, true);
  }

  openRecord(record) {
    const push = !this.isDetailOpen;
    this.isDetailOpen = true;
    if (state.get("record") === record) this.detail.update();
    else state.set({ record }, push);
  }

  closeDetail() {
    this.isDetailOpen = false;
    this.detail.update();
    this.#view?.redraw();
    $("view").querySelector("[tabindex]")?.focus({ preventScroll: true });
  }

  filterBy(filter) {
    $("filter").value = filter;
    state.set({ filter, view: "table" }, true);
  }

  setFollow(follows) {
    this.follows = follows;
    $("follow").setAttribute("aria-pressed", follows);
    if (follows) this.#view?.reload?.();
  }

  /** Shows how many rows there are, or why there are none. */
  report(rows) {
    const error = rows.error instanceof ConnectionLost ? null : rows.error;
    $("filter").setAttribute("aria-invalid", error !== undefined && error !== null);
    this.#banner("error", error ? error.message : null);
    if (error || !rows.isLoaded) return;
    const [total, records] = [rows.total, rows.records];
    const isPartial = rows.scanned < records;
    const noun = this.#view?.noun ?? "record";
    put($("count"), noun !== "record" || total === records ? plural(total, noun) : `${integer(total)} of ${integer(records)}`);
    $("progress").hidden = !isPartial;
    if (isPartial) $("progress").firstElementChild.style.width = `${(100 * rows.scanned) / records}%`;
  }

  #drawBar() {
    put($("views"), VIEWS.map((name, index) => h("button", {
      type: "button", role: "tab", "data-view": name, title: `${LABELS[name]} (${index + 1})`,
      onclick: () => state.set({ view: name }, true),
    }, LABELS[name])));
    put($("quick"), QUICK.map(([label, filter, , view]) => h("button", { type: "button", class: "chip", "data-filter": filter,
      onclick: () => this.#toggleTerm(filter, view) }, label, h("i", { class: "num" }))));
    $("late").onchange = () => state.set({ late: Number($("late").value) * 1000 === LATE ? undefined : Number($("late").value) });
    $("filter").value = state.get("filter") ?? "";
    let typing = 0;
    const take = () => {
      clearTimeout(typing);
      state.set({ filter: $("filter").value });
    };
    $("filter").addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(take, 120);
    });
    // Who leaves the field does not wait for the pause after typing.
    $("filter").addEventListener("blur", take);
    $("clear").onclick = () => this.clearFilter();
    $("follow").onclick = () => this.setFollow(!this.follows);
    $("theme").onclick = () => window.toggleTheme();
    $("help").onclick = toggleHelp;
    const sun = () => put($("theme"), document.documentElement.dataset.theme === "dark" ? "☀" : "☾");
    document.addEventListener("themechange", sun);
    sun();
    this.#markBar();
    this.#splitter();
  }

  clearFilter() {
    $("filter").value = "";
    state.set({ filter: undefined });
  }

  // Pairs and the timeline have requests alone: there, a filter for other records would match nothing.
  #toggleTerm(term, view) {
    const filter = toggle($("filter").value, term, QUICK_TERMS);
    $("filter").value = filter;
    const hasRequestsOnly = ["pairs", "timeline"].includes(state.get("view"));
    if (view && hasRequestsOnly && split(filter).includes(term)) state.set({ filter, view }, true);
    else state.set({ filter });
  }

  #markBar() {
    for (const tab of $("views").children) tab.setAttribute("aria-selected", tab.dataset.view === state.get("view"));
    const terms = split(state.get("filter") ?? "");
    QUICK.forEach(([, filter, number], index) => {
      const chip = $("quick").children[index];
      chip.setAttribute("aria-pressed", terms.includes(filter));
      const count = this.summary ? number(this.summary) : 0;
      put(chip.querySelector("i"), count ? integer(count) : "");
    });
    this.#markLate();
    $("clear").hidden = !state.get("filter");
    $("follow").hidden = this.sessionInfo?.state !== "running" || !["table", "sequence"].includes(state.get("view"))
      || (state.get("view") === "table" && order() === "took");
    if (document.activeElement !== $("filter")) $("filter").value = state.get("filter") ?? "";
    document.title = this.sessionInfo ? `${this.sessionInfo.program} – duet-rpc watch` : "duet-rpc watch";
  }

  // An address may have another time than the choices.
  #markLate() {
    const set = lateAfter() / 1000;
    if (Number($("late").value) === set) return;
    const times = LATE_AFTER.includes(set) ? LATE_AFTER : [...LATE_AFTER, set].sort((a, b) => a - b);
    put($("late"), times.map((time) => h("option", { value: time, selected: time === set || undefined }, duration(time * 1000))));
  }

  // The width of the detail, dragged with the pointer and kept for the next visit.
  #splitter() {
    const set = (width) => $("main").style.setProperty("--detail", `${Math.round(width)}px`);
    $("splitter").addEventListener("pointerdown", (event) => {
      $("splitter").setPointerCapture(event.pointerId);
      $("splitter").onpointermove = (move) => set(Math.min(innerWidth - 280, Math.max(280, innerWidth - move.clientX)));
      $("splitter").onpointerup = () => ($("splitter").onpointermove = null);
    });
  }

  #changed(names) {
    this.#markBar();
    if (names.has("session")) {
      this.summary = null;
      this.menu.update();
      this.#reportUnknown();
      this.#version = 0;
      this.#follow();
    }
    // The summary counts late answers.
    if (names.has("late") && !names.has("session")) {
      this.#version = 0;
      this.#follow();
    }
    if (names.has("session") || names.has("view")) this.#showView();
    else if (names.has("filter") || names.has("late")) this.#view?.reload?.();
    else if (names.has("from") || names.has("to")) this.#view?.ranged?.();
    if (names.has("record") && state.get("record") === undefined) this.isDetailOpen = false;
    this.#view?.redraw?.();
    this.detail.update();
  }

  #showView() {
    this.#view?.close();
    this.#view = null;
    this.#banner("error", null);
    put($("count"));
    if (this.session === undefined) return this.#showNothing();
    this.#view = MAKERS[state.get("view")](this);
    put($("view"), this.#view.element);
    this.#markBar();
  }

  #showNothing() {
    put($("view"), h("div", { class: "empty welcome" },
      h("b", {}, "No session yet"),
      h("p", {}, "Put the tap in front of a server, and its messages appear here:"),
      h("pre", {}, "duet-rpc tap -- some-server --stdio"),
      h("p", { class: "muted" }, this.folder ? `This page watches ${this.folder}` : "")));
  }

  #opened() {
    this.#failures = 0;
    this.#version = 0;
    this.#banner("lost", null);
    this.#showLive("on", "Connected to duet-rpc watch");
    this.#follow();
  }

  #showLive(shown, title) {
    $("live").dataset.state = shown;
    $("live").title = title;
  }

  // A long poll: the server answers when something has changed. Another session needs another poll; the answer to the
  // one before is not wanted any more.
  async #follow() {
    const poll = ++this.#poll;
    while (this.rpc.isOpen && poll === this.#poll) {
      try {
        const answer = await this.rpc.call("changes", { since: this.#version, session: state.get("session"), late: lateAfter() });
        if (poll !== this.#poll) return;
        this.#take(answer);
        await this.#rest(answer.summary);
      } catch (error) {
        if (error instanceof ConnectionLost || poll !== this.#poll) return;
        this.#banner("error", error.message);
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
  }

  // A hidden page asks for nothing. A visible one asks at most ten times a second, except while the index is built.
  async #rest(summary) {
    while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    if (!summary || summary.indexed >= summary.bytes) await new Promise((resolve) => setTimeout(resolve, SHORTEST_REST));
  }

  #take(answer) {
    if (answer.version === this.#version) return;
    const before = this.session;
    this.#version = answer.version;
    this.sessions = answer.sessions.map((it) => ({ ...it, started: Date.parse(it.start) || 0 }));
    this.folder = answer.folder;
    const seen = this.summary?.version;
    if (answer.session === this.session) this.summary = answer.summary;
    this.menu.update();
    this.#markBar();
    this.#banner("problem", answer.summary?.problem ?? null);
    this.#reportUnknown();
    if (before !== this.session || !this.#view) {
      this.#showView();
      this.detail.update();
    } else if (this.summary?.version !== seen) {
      this.#view.refresh();
      this.detail.refresh();
    }
    this.#view?.summary?.();
    // From now on this page is about this session, even if a newer one begins.
    if (state.get("session") === undefined && answer.session) state.set({ session: answer.session });
  }

  async #lost(wait) {
    this.#showLive("off", "Not connected");
    this.#failures++;
    const seconds = (wait / 1000).toFixed(1);
    this.#banner("lost", `Connection to duet-rpc watch lost. Trying again in ${seconds} s …`);
    // A server that was started again has another token: no attempt can succeed then.
    if (this.#failures < 3) return;
    const answer = await fetch("/", { method: "HEAD" }).catch(() => null);
    if (answer?.status === 401) this.#banner("lost", "duet-rpc watch was started again. Open the new address that it has printed.");
  }

  // An address with a session that is not here: deleted, or of another folder.
  #reportUnknown() {
    const wanted = state.get("session");
    const isUnknown = wanted !== undefined && !this.sessions.some((it) => it.key === wanted);
    const shown = this.sessions.length > 0 ? " The newest session is shown instead." : "";
    this.#banner("unknown", isUnknown ? `There is no session “${visible(wanted)}” in ${this.folder}.${shown}` : null);
  }

  #banners = new Map();

  #banner(kind, message) {
    if (message) this.#banners.set(kind, message);
    else this.#banners.delete(kind);
    const [shown] = ["lost", "error", "unknown", "problem"].filter((it) => this.#banners.has(it));
    $("banner").hidden = !shown;
    $("banner").dataset.kind = shown ?? "";
    put($("banner"), shown ? this.#banners.get(shown) : "");
  }
}

window.app = new App();
