// Parts of the plots: axes with round numbers, colours of the theme, crisp canvases.

import { h } from "./dom.js";
import { duration } from "./format.js";

/** A colour of the theme. */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A canvas that fills its box, and is drawn again when the box or the theme changes. */
export function plot(className, draw, label) {
  const canvas = h("canvas", { class: className, role: "img", "aria-label": label });
  const redraw = () => {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (width === 0 || height === 0) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
    draw(context, width, height);
  };
  const observer = new ResizeObserver(redraw);
  observer.observe(canvas);
  document.addEventListener("themechange", redraw);
  const close = () => {
    observer.disconnect();
    document.removeEventListener("themechange", redraw);
  };
  return { canvas, redraw, close };
}

/** Round positions between two values, at most `most` of them. */
export function ticks(from, to, most) {
  const span = to - from;
  if (!(span > 0)) return [];
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= rough);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

/** A label for a tick: the moment, as short as the distance between ticks allows. */
export function tickLabel(us, step) {
  if (step >= 60e6) return `${Math.round(us / 60e6)} min`;
  if (step >= 1e6) return `${Math.round(us / 1e6)} s`;
  if (step >= 1000) return us >= 1e6 ? `${(us / 1e6).toFixed(step >= 100e3 ? 1 : step >= 10e3 ? 2 : 3)} s` : `${Math.round(us / 1000)} ms`;
  return duration(us);
}

/** A label for a power of ten: 100 µs, 1 ms, 10 s. */
export function roundDuration(us) {
  return us < 1000 ? `${us} µs` : us < 1e6 ? `${us / 1000} ms` : `${us / 1e6} s`;
}

/** A logarithmic scale for latencies: 10 µs is 0, each decade the same length. */
export function logScale(least, most) {
  const [low, high] = [Math.log10(Math.max(1, least)), Math.log10(Math.max(10, most))];
  const span = Math.max(0.5, high - low);
  const decades = [];
  for (let power = Math.ceil(low); power <= high; power++) decades.push(10 ** power);
  return { at: (value) => (Math.log10(Math.max(1, value)) - low) / span, decades };
}
