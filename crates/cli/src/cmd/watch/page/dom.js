// Elements are made here and only here. Content from a trace always becomes a text node, never markup, so a message
// that contains `</script>` or an `onerror` attribute is shown and does nothing.

/** Makes an element. Keys that begin with `on` are listeners, `class`, `data-…`, `aria-…` and others attributes. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Makes an SVG element. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    // `false` is a value of these.
    if (key.startsWith("aria-") && value !== undefined) element.setAttribute(key, String(value));
    else if (value === undefined || value === null || value === false) continue;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(element.style, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces the content of an element. */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

export const $ = (id) => document.getElementById(id);

// Characters that are invisible, or that change the order in which their neighbours are shown: control characters,
// bidirectional marks, zero-width characters, unpaired surrogates.
const HIDDEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]" +
    "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]|\\udb40[\\udc00-\\udc7f]",
  "g",
);
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

const escape = (found) =>
  SHORT[found] ?? [...found].map((c) => `\\u{${c.codePointAt(0).toString(16)}}`).join("");

/** One line of text in which every hidden character is shown as an escape. */
export function visible(text) {
  return String(text).replace(HIDDEN, escape);
}

/** The same as nodes, with each escape marked. `keep` are characters to leave alone, such as line ends. */
export function marked(text, keep = "") {
  const nodes = [];
  let end = 0;
  for (const match of String(text).matchAll(HIDDEN)) {
    if (keep.includes(match[0])) continue;
    if (match.index > end) nodes.push(text.slice(end, match.index));
    nodes.push(h("span", { class: "escape", title: "Hidden character" }, escape(match[0])));
    end = match.index + match[0].length;
  }
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}

let hiding = 0;

/** Shows a short message for two seconds. */
export function toast(text) {
  const box = $("toast");
  put(box, text);
  box.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (box.hidden = true), 2000);
}

/** Copies a text. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    toast("The browser refused to copy");
  }
}
