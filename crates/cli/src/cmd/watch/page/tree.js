// The tree of a message. Children become elements when they are opened, so a large message costs little.

import { h, marked, visible } from "./dom.js";
import { integer } from "./format.js";

const SHOWN_CHARS = 2000;
const SHOWN_CHILDREN = 100;
const OPEN_DEPTH = 3;
const OPEN_CHILDREN = 30;

/** A tree for a node of `json.js`. */
export function tree(node) {
  return h("div", { class: "tree", role: "tree" }, branch(undefined, node, 0));
}

function branch(name, node, depth) {
  const label = name === undefined ? null : [h("span", { class: "key" }, marked(name)), h("span", { class: "punct" }, ": ")];
  const children = node.entries ?? node.items?.map((item, index) => [String(index), item]);
  if (!children?.length) return h("div", { class: "leaf", role: "treeitem" }, label, scalar(node));
  const [open, close] = node.type === "object" ? "{}" : "[]";
  const noun = node.type === "object" ? "member" : "item";
  const box = h("details", { role: "treeitem" },
    h("summary", {}, label, h("span", { class: "punct" }, `${open} `),
      h("span", { class: "preview" }, preview(node)),
      h("span", { class: "punct" }, ` ${close}`),
      h("span", { class: "count" }, ` ${integer(children.length)} ${noun}${children.length === 1 ? "" : "s"}`)));
  let isFilled = false;
  const fill = () => {
    if (!isFilled && box.open) {
      isFilled = true;
      more(box, children, 0, depth);
    }
  };
  box.addEventListener("toggle", fill);
  if (depth < OPEN_DEPTH && children.length <= OPEN_CHILDREN) {
    box.open = true;
    fill();
  }
  return box;
}

function more(box, children, begin, depth) {
  const end = Math.min(children.length, begin + SHOWN_CHILDREN);
  for (const [name, node] of children.slice(begin, end)) box.append(branch(name, node, depth + 1));
  if (end === children.length) return;
  const button = h("button", { type: "button", class: "link", onclick: () => {
    button.remove();
    more(box, children, end, depth);
  } }, `Show ${integer(Math.min(SHOWN_CHILDREN, children.length - end))} of ${integer(children.length - end)} more`);
  box.append(button);
}

function scalar(node) {
  if (node.type === "object") return h("span", { class: "punct" }, "{}");
  if (node.type === "array") return h("span", { class: "punct" }, "[]");
  if (node.type !== "string") return h("span", { class: `v-${node.type}` }, node.text);
  return long(node.value);
}

// A string of ten megabytes must not become one text node: laying it out would stop the page.
function long(value) {
  const span = h("span", { class: "v-string" });
  const show = (end) => {
    span.replaceChildren('"', ...marked(value.slice(0, end)), end < value.length ? "…" : '"');
    if (end >= value.length) return;
    span.append(h("button", { type: "button", class: "link", onclick: () => show(end * 5) },
      `${integer(value.length - end)} more characters`));
  };
  show(SHOWN_CHARS);
  return span;
}

function preview(node) {
  const short = (it) => {
    if (it.type === "string") return JSON.stringify(it.value.length > 24 ? `${it.value.slice(0, 23)}…` : it.value);
    if (it.type === "object") return it.entries.length ? "{…}" : "{}";
    if (it.type === "array") return it.items.length ? "[…]" : "[]";
    return it.text;
  };
  const parts = node.entries
    ? node.entries.slice(0, 6).map(([name, it]) => `${name.slice(0, 24)}: ${short(it)}`)
    : node.items.slice(0, 8).map(short);
  return visible(parts.join(", "));
}
