// A JSON reader that keeps what JSON.parse throws away: the text of numbers (1e400, 12345678901234567890), members with
// the same name, and their order. The tree and the diff show the message that was sent, not an approximation of it.

const DEEPEST = 500;

/** Reads a text. Returns a node, or throws a SyntaxError with the position.
 *
 * A node is `{ type, … }`: `object` with `entries` of [name, node], `array` with `items`, `string` with `value`,
 * and `number`, `boolean`, `null` with the `text` as it stands in the message. */
export function parse(text) {
  let at = 0;
  const fail = (what) => {
    throw new SyntaxError(`${what} at character ${at}`);
  };
  const space = () => {
    while (" \t\n\r".includes(text[at] ?? "x")) at++;
  };
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found?.[0];
  };
  const string = () => {
    const raw = take(/"(?:[^"\\]|\\.)*"/y) ?? fail("Unfinished string");
    return JSON.parse(raw);
  };
  const members = (end, read) => {
    at++;
    const found = [];
    space();
    if (text[at] === end) {
      at++;
      return found;
    }
    for (;;) {
      space();
      found.push(read());
      space();
      if (text[at] === ",") at++;
      else if (text[at] === end) {
        at++;
        return found;
      } else fail(`Expected , or ${end}`);
    }
  };
  const value = (depth) => {
    if (depth > DEEPEST) fail("Nested too deeply to show");
    space();
    if (text[at] === "{") {
      return { type: "object", entries: members("}", () => {
        const name = text[at] === '"' ? string() : fail("Expected a name");
        space();
        if (text[at++] !== ":") fail("Expected :");
        return [name, value(depth + 1)];
      }) };
    }
    if (text[at] === "[") return { type: "array", items: members("]", () => value(depth + 1)) };
    if (text[at] === '"') return { type: "string", value: string() };
    const number = take(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (number) return { type: "number", text: number };
    const word = take(/true|false|null/y) ?? fail("Unexpected character");
    return { type: word === "null" ? "null" : "boolean", text: word };
  };
  const node = value(0);
  space();
  if (at < text.length) fail("Unexpected text after the value");
  return node;
}

/** The member of an object, or `undefined`. */
export const member = (node, name) => node?.entries?.find(([it]) => it === name)?.[1];

/** A node as text again; with `indent`, on several lines. */
export function print(node, indent = 0, level = 0) {
  const [line, close] = indent ? [`\n${" ".repeat(indent * (level + 1))}`, `\n${" ".repeat(indent * level)}`] : ["", ""];
  const gap = indent ? ": " : ":";
  const inner = (it) => print(it, indent, level + 1);
  if (node.type === "object") {
    const shown = node.entries.map(([name, it]) => `${line}${JSON.stringify(name)}${gap}${inner(it)}`);
    return shown.length ? `{${shown.join(",")}${close}}` : "{}";
  }
  if (node.type === "array") {
    return node.items.length ? `[${node.items.map((it) => `${line}${inner(it)}`).join(",")}${close}]` : "[]";
  }
  return node.type === "string" ? JSON.stringify(node.value) : node.text;
}

/** The differences of two nodes: `{ path, old, new }`, where a missing side is `undefined`. */
export function differences(old, now, path = "", found = []) {
  if (old.type === "object" && now.type === "object") {
    const after = new Map(now.entries);
    const before = new Map(old.entries);
    for (const [name, node] of before) {
      const here = `${path}/${pointer(name)}`;
      if (after.has(name)) differences(node, after.get(name), here, found);
      else found.push({ path: here, old: node });
    }
    for (const [name, node] of after) {
      if (!before.has(name)) found.push({ path: `${path}/${pointer(name)}`, new: node });
    }
  } else if (old.type === "array" && now.type === "array") {
    for (let index = 0; index < Math.max(old.items.length, now.items.length); index++) {
      const [a, b] = [old.items[index], now.items[index]];
      if (a && b) differences(a, b, `${path}/${index}`, found);
      else found.push({ path: `${path}/${index}`, old: a, new: b });
    }
  } else if (print(old) !== print(now)) {
    found.push({ path, old, new: now });
  }
  return found;
}

const pointer = (name) => name.replaceAll("~", "~0").replaceAll("/", "~1");
