// A virtual list: only the visible rows are elements. It shows a million rows with fifty elements.

import { h } from "./dom.js";

// Browsers limit the height of an element; Firefox at 17 million pixels. A longer list has a scaled scroll bar.
const MOST_PIXELS = 8_000_000;
const EXTRA = 4;

export class List {
  #rows;
  #height;
  #draw;
  #pool = [];
  #top = 0;
  #frame = 0;

  /** `draw(element, row, position)` fills an element; `row` is undefined while it loads. */
  constructor({ height, draw, label, open, className = "" }) {
    this.#height = height;
    this.#draw = draw;
    this.follows = false;
    this.space = h("div", { class: "space" });
    this.element = h("div", { class: `list ${className}`, role: "grid", "aria-label": label, tabindex: 0 }, this.space);
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.space.addEventListener("click", (event) => {
      const line = event.target.closest(".row");
      if (line) open(Number(line.dataset.position));
    });
    this.observer = new ResizeObserver(() => this.render());
    this.observer.observe(this.element);
  }

  set rows(rows) {
    this.#rows = rows;
    this.#top = 0;
    this.element.scrollTop = 0;
    this.render();
  }

  get rows() {
    return this.#rows;
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  /** Draws the visible rows in the next frame. */
  render() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#render();
    });
  }

  /** Scrolls so that a position is visible. */
  reveal(position) {
    const [top, view] = [position * this.#height, this.element.clientHeight];
    if (top < this.#top) this.#jump(top);
    else if (top + this.#height > this.#top + view) this.#jump(top + this.#height - view);
    this.render();
  }

  /** Scrolls so that a position is in the middle. */
  center(position) {
    this.#jump(position * this.#height - this.element.clientHeight / 2);
    this.render();
  }

  get isAtEnd() {
    return this.#top >= this.#total - this.element.clientHeight - this.#height / 2;
  }

  get #total() {
    return (this.#rows?.total ?? 0) * this.#height;
  }

  get #isScaled() {
    return this.#total > MOST_PIXELS;
  }

  #jump(top) {
    const most = Math.max(0, this.#total - this.element.clientHeight);
    this.#top = Math.min(Math.max(0, top), most);
    this.element.scrollTop = this.#toBar(this.#top);
  }

  #toBar(top) {
    if (!this.#isScaled) return top;
    const view = this.element.clientHeight;
    return (top / (this.#total - view)) * (MOST_PIXELS - view);
  }

  #scrolled() {
    const bar = this.element.scrollTop;
    // Our own jump: the bar is coarser than the position.
    if (Math.abs(bar - this.#toBar(this.#top)) < 1) return this.render();
    const view = this.element.clientHeight;
    this.#top = this.#isScaled ? (bar / (MOST_PIXELS - view)) * (this.#total - view) : bar;
    this.follows = this.follows && this.isAtEnd;
    this.render();
  }

  #wheel(event) {
    if (event.deltaY < 0) this.follows = false;
    if (!this.#isScaled || event.ctrlKey) return;
    event.preventDefault();
    this.#jump(this.#top + event.deltaY);
    this.render();
  }

  #render() {
    const [total, height, view] = [this.#total, this.#height, this.element.clientHeight];
    this.space.style.height = `${Math.min(total, MOST_PIXELS)}px`;
    if (this.follows || this.#top > Math.max(0, total - view)) this.#jump(this.follows ? total : this.#top);
    const first = Math.max(0, Math.floor(this.#top / height) - EXTRA);
    const last = Math.min(this.#rows?.total ?? 0, Math.ceil((this.#top + view) / height) + EXTRA);
    // Positions are relative to the bar, because in a scaled list the two differ.
    const shift = this.element.scrollTop - this.#top;
    while (this.#pool.length < last - first) {
      const line = h("div", { class: "row", role: "row" });
      this.#pool.push(line);
      this.space.append(line);
    }
    this.#pool.forEach((line, index) => {
      const position = first + index;
      line.hidden = position >= last;
      if (line.hidden) return;
      line.dataset.position = position;
      line.style.transform = `translateY(${position * height + shift}px)`;
      this.#draw(line, this.#rows.at(position), position);
    });
    this.#rows?.want(first, last);
  }
}
