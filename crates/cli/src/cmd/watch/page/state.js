// The state of the page. It lives in the fragment of the URL, so that a reload, the back button and a copied link show
// the same thing. The fragment never reaches the server.

const FIELDS = {
  session: "s",
  view: "v",
  filter: "q",
  record: "r",
  tab: "tab",
  base: "base",
  sort: "sort",
  late: "late",
  from: "from",
  to: "to",
};
const NUMBERS = new Set(["record", "base", "from", "to", "late"]);
export const VIEWS = ["table", "pairs", "timeline", "sequence", "stats"];

class State extends EventTarget {
  constructor() {
    super();
    this.values = read();
    window.addEventListener("popstate", () => this.#reload());
    window.addEventListener("hashchange", () => this.#reload());
  }

  get(name) {
    if (name === "view") return VIEWS.includes(this.values.view) ? this.values.view : "table";
    return this.values[name];
  }

  /** Changes fields; `undefined` removes one. With `push`, the back button returns to the state before. */
  set(changes, push = false) {
    // An empty field is an absent one.
    const changed = Object.keys(changes).filter((name) => (this.values[name] ?? "") !== (changes[name] ?? ""));
    if (changed.length === 0) return;
    for (const name of changed) {
      if (changes[name] === undefined || changes[name] === "") delete this.values[name];
      else this.values[name] = changes[name];
    }
    history[push ? "pushState" : "replaceState"](null, "", write(this.values));
    this.dispatchEvent(new CustomEvent("change", { detail: new Set(changed) }));
  }

  #reload() {
    const before = this.values;
    this.values = read();
    const names = Object.keys(FIELDS).filter((name) => before[name] !== this.values[name]);
    // A link to a record, and the way back to one, open it.
    if (names.includes("record")) this.dispatchEvent(new Event("visit"));
    if (names.length > 0) this.dispatchEvent(new CustomEvent("change", { detail: new Set(names) }));
  }
}

function read() {
  const query = new URLSearchParams(location.hash.slice(1));
  const values = {};
  for (const [name, key] of Object.entries(FIELDS)) {
    const text = query.get(key);
    if (text === null) continue;
    const value = NUMBERS.has(name) ? Number(text) : text;
    if (!Number.isNaN(value)) values[name] = value;
  }
  return values;
}

function write(values) {
  const query = new URLSearchParams();
  for (const [name, key] of Object.entries(FIELDS)) {
    if (values[name] !== undefined) query.set(key, values[name]);
  }
  // The path without the query: the token must not stay in the address bar.
  return `${location.pathname}#${query}`;
}

export const state = new State();

/** The time after which an answer is late, in µs. */
export const LATE = 1_000_000;
export const lateAfter = () => (state.get("late") > 0 ? Math.round(state.get("late") * 1000) : LATE);
