// Numbers and names as people read them. Every numeric column uses these, so that units line up.

const count = new Intl.NumberFormat("en-US");

/** 12345 → 12,345 */
export const integer = (value) => count.format(value);

/** "1 record", "2 records" */
export const plural = (value, noun) => `${integer(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A duration in µs: three significant digits and a unit. */
export function duration(us) {
  if (us === undefined || us === null) return "";
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 999_500) return `${digits(us / 1000)} ms`;
  if (us < 100e6) return `${digits(us / 1e6)} s`;
  const seconds = Math.round(us / 1e6);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${seconds % 60} s`;
}

const digits = (value) => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

/** A moment in µs since the start of the session: 12.345678 or 1:02.345678, to the microsecond. */
export function moment(us, places = 6) {
  const seconds = us / 1e6;
  if (seconds < 60) return seconds.toFixed(places);
  const whole = Math.floor(seconds / 60);
  const rest = (seconds - whole * 60).toFixed(places).padStart(places + 3, "0");
  const [hours, minutes] = [Math.floor(whole / 60), whole % 60];
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** A size in bytes. */
export function bytes(value) {
  if (value === undefined || value === null) return "";
  if (value < 1000) return `${value} B`;
  if (value < 999_500) return `${digits(value / 1000)} kB`;
  if (value < 999.5e6) return `${digits(value / 1e6)} MB`;
  return `${digits(value / 1e9)} GB`;
}

/** The wall-clock time of a moment, or of the start of a session. */
export function clock(ms) {
  const date = new Date(ms);
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString("en-GB");
  return today ? time : `${date.toLocaleDateString("en-CA")} ${time}`;
}

/** The arrow of a direction, and its name for people. */
export const DIRECTIONS = {
  c2s: { arrow: "→", name: "client to server" },
  s2c: { arrow: "←", name: "server to client" },
  err: { arrow: "≡", name: "stderr of the server" },
  tap: { arrow: "•", name: "the tap" },
};

/** The words for the state of a request. */
export const STATES = {
  ok: "answered",
  error: "error",
  pending: "pending",
  late: "late",
  cancelled: "cancelled",
  unanswered: "no answer",
};

/** The state of a request as it is shown: a late answer is still an answer. */
export const fate = (row) => (row.state === "ok" && row.isLate ? "late" : row.state ?? "");

/** A text as one word of a shell command. */
export function shell(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
