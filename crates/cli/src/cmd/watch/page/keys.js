// The keyboard.

import { $ } from "./dom.js";
import { toggleHelp } from "./help.js";
import { VIEWS, state } from "./state.js";

/** Handles the keys of the whole page. */
export function keyboard(app) {
  const move = (distance) => app.view?.move(distance);
  const actions = {
    "/": () => { $("filter").focus(); $("filter").select(); },
    j: () => move(1),
    ArrowDown: () => move(1),
    k: () => move(-1),
    ArrowUp: () => move(-1),
    PageDown: () => move(20),
    PageUp: () => move(-20),
    g: () => move(-Infinity),
    Home: () => move(-Infinity),
    G: () => move(Infinity),
    End: () => move(Infinity),
    Enter: () => {
      if (state.get("record") !== undefined) app.openRecord(state.get("record"));
    },
    p: () => app.detail.openPartner(),
    m: () => app.detail.setBase(),
    f: () => app.setFollow(!app.follows),
    t: () => window.toggleTheme(),
    "+": () => app.view?.zoom?.(0.6),
    "-": () => app.view?.zoom?.(1.7),
    0: () => state.set({ from: undefined, to: undefined }),
    "?": toggleHelp,
    Escape: () => leave(app),
  };
  VIEWS.forEach((view, index) => (actions[index + 1] = () => state.set({ view }, true)));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("help-box").open) return;
    const isTyping = event.target === $("filter");
    if (isTyping && !["Escape", "Enter", "ArrowDown"].includes(event.key)) return;
    // Buttons and the parts of a tree have their own meaning of these.
    const isControl = event.target.closest?.("button, summary, a");
    if (isControl && ["Enter", " "].includes(event.key)) return;
    if (event.target.closest?.("#detail .body") && /^(Arrow|Page|Home|End)/.test(event.key)) return;
    const action = isTyping && event.key !== "Escape" ? () => blur(app) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function blur(app) {
  $("filter").blur();
  app.view?.list?.element.focus({ preventScroll: true });
}

// One step back: the menu, the filter's focus, the detail, the filter.
function leave(app) {
  if (app.menu.isOpen) app.menu.toggle(false);
  else if (document.activeElement === $("filter")) $("filter").blur();
  else if (app.isDetailOpen) app.closeDetail();
  else if (state.get("filter")) app.clearFilter();
}
