// The body of a record: its bytes, pulled in pieces, and how they are shown as text and as hex.

import { h, marked, put } from "./dom.js";
import { bytes as size, integer } from "./format.js";

const PIECE = 256 * 1024;
/** Bodies up to this size are read whole for the tree and the diff. */
export const WHOLE = 2 * 1024 * 1024;
const HEX_PIECE = 4096;
const TEXT_PIECE = 64 * 1024;

export class Body {
  #rpc;
  #params;
  #pieces = new Map();

  constructor(rpc, session, record, total) {
    this.#rpc = rpc;
    this.#params = { session, record };
    this.total = total;
  }

  /** The bytes of a range. */
  async range(begin, end) {
    end = Math.min(end, this.total);
    const found = new Uint8Array(Math.max(0, end - begin));
    for (let at = begin; at < end; ) {
      const index = Math.floor(at / PIECE);
      const piece = await this.#piece(index);
      const part = piece.subarray(at - index * PIECE, Math.min(piece.length, end - index * PIECE));
      // The file may have become shorter.
      if (part.length === 0) return found.subarray(0, at - begin);
      found.set(part, at - begin);
      at += part.length;
    }
    return found;
  }

  /** The whole body as text, or `null` if it is too large. */
  async text() {
    if (this.total > WHOLE) return null;
    return new TextDecoder().decode(await this.range(0, this.total));
  }

  async #piece(index) {
    if (!this.#pieces.has(index)) {
      const answer = await this.#rpc.call("bytes", { ...this.#params, offset: index * PIECE, count: PIECE });
      const text = atob(answer.base64);
      this.#pieces.set(index, Uint8Array.from(text, (c) => c.charCodeAt(0)));
    }
    return this.#pieces.get(index);
  }
}

/** The text as it was sent, piece by piece. `pretty` is a function that formats a whole text, if that is wanted. */
export async function rawView(body, pretty) {
  const box = h("pre", { class: "raw" });
  const whole = pretty ? await body.text() : null;
  if (whole !== null) return put(box, marked(pretty(whole), "\n\t"));
  const decoder = new TextDecoder("utf-8", { fatal: false });
  let shown = 0;
  const next = async () => {
    const part = await body.range(shown, shown + TEXT_PIECE);
    shown += part.length;
    // With `stream`, a character that is cut between two pieces stays whole.
    box.append(...marked(decoder.decode(part, { stream: shown < body.total }), "\n\t"));
    if (part.length === 0 || shown >= body.total) return;
    const button = h("button", { type: "button", class: "link block", onclick: async () => {
      button.disabled = true;
      await next();
      button.remove();
    } }, `Show more: ${size(shown)} of ${size(body.total)} shown`);
    box.append(button);
  };
  await next();
  return box;
}

/** The bytes, sixteen in a line, with their offsets and characters. */
export async function hexView(body) {
  const box = h("pre", { class: "hex" });
  const wide = window.matchMedia("(max-width: 640px)").matches ? 8 : 16;
  let shown = 0;
  const next = async () => {
    const part = await body.range(shown, shown + HEX_PIECE);
    const lines = [];
    for (let at = 0; at < part.length; at += wide) lines.push(hexLine(part.subarray(at, at + wide), shown + at, wide));
    shown += part.length;
    box.append(...lines);
    if (part.length === 0 || shown >= body.total) return;
    const button = h("button", { type: "button", class: "link block", onclick: async () => {
      button.disabled = true;
      await next();
      button.remove();
    } }, `Show more: ${integer(shown)} of ${integer(body.total)} bytes shown`);
    box.append(button);
  };
  await next();
  return box;
}

function hexLine(part, offset, wide) {
  const digits = [...part].map((byte) => byte.toString(16).padStart(2, "0"));
  const half = wide / 2;
  const left = digits.slice(0, half).join(" ").padEnd(half * 3 - 1);
  const right = digits.slice(half).join(" ").padEnd(half * 3 - 1);
  const characters = [...part].map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
  return h("span", { class: "hex-line" },
    h("span", { class: "muted" }, offset.toString(16).padStart(8, "0")), `  ${left}  ${right}  `,
    h("span", { class: "chars" }, characters), "\n");
}
