// The choice of a session: a button with the session of now, and a list of all of them.

import { $, h, put, visible } from "./dom.js";
import { bytes, clock } from "./format.js";

const STATES = { running: "running", ended: "ended", stopped: "stopped without an end", deleted: "file deleted" };

export class Sessions {
  #app;
  #isOpen = false;

  constructor(app) {
    this.#app = app;
    this.button = h("button", { type: "button", class: "session", "aria-haspopup": "listbox", "aria-expanded": false, onclick: () => this.toggle() });
    this.menu = h("div", { class: "menu", role: "listbox", hidden: true });
    $("session-slot").append(this.button, this.menu);
    document.addEventListener("pointerdown", (event) => {
      if (!$("session-slot").contains(event.target)) this.toggle(false);
    });
  }

  toggle(open = !this.#isOpen) {
    open = open && this.#app.sessions.length > 0;
    this.#isOpen = open;
    this.menu.hidden = !open;
    this.button.setAttribute("aria-expanded", open);
    if (open) this.menu.querySelector("[aria-selected=true]")?.focus();
    return open;
  }

  get isOpen() {
    return this.#isOpen;
  }

  update() {
    const info = this.#app.sessionInfo;
    put(this.button,
      h("span", { class: `dot ${info?.state ?? "none"}`, title: STATES[info?.state] ?? "" }),
      h("span", { class: "name" }, info ? visible(info.title) : "No session"),
      h("span", { class: "caret", "aria-hidden": "true" }, "▾"));
    const focused = document.activeElement?.dataset?.key;
    put(this.menu, this.#app.sessions.map((it) => h("button", {
      type: "button", role: "option", "data-key": it.key, "aria-selected": it.key === this.#app.session,
      onclick: () => { this.toggle(false); this.#app.choose(it.key); },
      onkeydown: (event) => this.#key(event),
    },
    h("span", { class: `dot ${it.state}`, title: STATES[it.state] ?? "" }),
    h("span", { class: "name" }, visible(it.title)),
    h("span", { class: "file muted", title: it.key }, visible(it.key)),
    h("span", { class: "when muted num" }, it.started ? clock(it.started) : "", " · ", bytes(it.bytes), it.state === "running" ? "" : ` · ${STATES[it.state] ?? ""}`))));
    if (this.#isOpen && focused) this.menu.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  #key(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    event.currentTarget[step]?.focus();
  }
}
