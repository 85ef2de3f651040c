// JSON-RPC 2.0 over a WebSocket to the server of this page. The page pulls: every message here is a request of the page
// or its response, so a slow page has few messages in flight and never slows the server.

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;

/** The server answered with an error. */
export class RemoteError extends Error {
  constructor({ code, message, data }) {
    super(message);
    Object.assign(this, { code, data });
  }
}

/** The connection ended before the answer came. */
export class ConnectionLost extends Error {}

export class Rpc extends EventTarget {
  #pending = new Map();
  #next = 1;
  #socket = null;
  #wait = FIRST_WAIT;

  constructor(url) {
    super();
    this.url = url;
    this.isOpen = false;
    this.#connect();
  }

  /** Calls a method. `signal` drops the answer: its rows are not wanted any more. */
  call(method, params = {}) {
    if (!this.isOpen) return Promise.reject(new ConnectionLost());
    const id = this.#next++;
    this.#socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
  }

  #connect() {
    // The browser sends the cookie along; the server checks it, the host and the origin.
    const socket = new WebSocket(this.url);
    this.#socket = socket;
    socket.onopen = () => {
      this.isOpen = true;
      this.#wait = FIRST_WAIT;
      this.dispatchEvent(new Event("open"));
    };
    socket.onmessage = (event) => this.#receive(event.data);
    socket.onclose = () => this.#lose();
  }

  #receive(text) {
    const message = JSON.parse(text);
    const call = this.#pending.get(message.id);
    if (!call) return;
    this.#pending.delete(message.id);
    if (message.error) call.reject(new RemoteError(message.error));
    else call.resolve(message.result);
  }

  #lose() {
    this.isOpen = false;
    for (const call of this.#pending.values()) call.reject(new ConnectionLost());
    this.#pending.clear();
    this.dispatchEvent(new CustomEvent("lost", { detail: { wait: this.#wait } }));
    setTimeout(() => this.#connect(), this.#wait);
    this.#wait = Math.min(this.#wait * 1.7, LONGEST_WAIT);
  }
}
