// The rows of one query, pulled page by page. Only pages near the visible part are kept, so the memory of the browser
// does not grow with the trace.

const PAGE = 128;
const MOST_PAGES = 40;

export class Rows extends EventTarget {
  #rpc;
  #query;
  #pages = new Map();
  #stale = new Set();
  #asked = new Set();
  #wanted = [0, 0];
  #generation;
  #closed = false;

  /** `query` holds the session, the filter, and the other params of the method `rows`. */
  constructor(rpc, query) {
    super();
    this.#rpc = rpc;
    this.#query = query;
    this.total = 0;
    this.records = 0;
    this.isLoaded = false;
    this.error = null;
    this.#ask(0);
  }

  /** The row at a position, or `undefined` if it has not arrived yet. */
  at(position) {
    return this.#pages.get(Math.floor(position / PAGE))?.[position % PAGE];
  }

  /** Tells which rows are visible, and asks for the missing ones. */
  want(first, last) {
    this.#wanted = [Math.floor(first / PAGE), Math.floor(Math.max(first, last - 1) / PAGE)];
    this.#askMissing();
  }

  /** The trace has changed: asks again for the visible rows, and shows the old ones until then. */
  refresh() {
    for (const page of this.#pages.keys()) this.#stale.add(page);
    this.#askMissing();
    if (this.#asked.size === 0) this.#ask(this.#wanted[0]);
  }

  /** The position of a record in this list, or -1. */
  async locate(record) {
    const answer = await this.#rpc.call("rows", { ...this.#query, offset: 0, count: 0, locate: record });
    return answer.position ?? -1;
  }

  close() {
    this.#closed = true;
  }

  #askMissing() {
    const [first, last] = this.#wanted;
    for (let page = first; page <= last; page++) {
      const exists = page * PAGE < this.total;
      if (exists && (!this.#pages.has(page) || this.#stale.has(page))) this.#ask(page);
    }
  }

  async #ask(page) {
    // Two at a time: a fast scroll must not queue a hundred requests for rows that are no longer visible.
    if (this.#closed || this.#asked.has(page) || this.#asked.size >= 2) return;
    this.#asked.add(page);
    this.#stale.delete(page);
    try {
      this.#take(page, await this.#rpc.call("rows", { ...this.#query, offset: page * PAGE, count: PAGE }));
    } catch (error) {
      this.error = error;
    }
    this.#asked.delete(page);
    if (this.#closed) return;
    this.dispatchEvent(new Event("change"));
    if (!this.error) this.#askMissing();
  }

  #take(page, answer) {
    if (answer.generation !== this.#generation) this.#pages.clear();
    this.#generation = answer.generation;
    this.error = null;
    this.isLoaded = true;
    this.total = answer.total;
    this.records = answer.records;
    this.scanned = answer.scanned;
    this.#pages.delete(page);
    this.#pages.set(page, answer.rows);
    // The last page grows; the next answer may have to fetch it again.
    for (const old of this.#pages.keys()) {
      if (this.#pages.size <= MOST_PAGES) break;
      this.#pages.delete(old);
    }
    if (answer.scanned < answer.records) setTimeout(() => this.#closed || this.#continue(page), 0);
  }

  // The server filters a large trace in slices, so that no answer takes long.
  #continue(page) {
    this.#stale.add(page);
    this.#ask(page);
  }
}
