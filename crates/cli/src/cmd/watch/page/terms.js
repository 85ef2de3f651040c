// The filter as a list of terms that all have to match, so that a button can add and remove one.

// A `|` that joins terms. One inside of a value, as in `kind:error|noise`, has a value on both sides.
const JOINS = /^\|(?=\s|$|-|\(|[a-z]+:)/;

/** The terms of a filter. A filter of alternatives is one term, in parentheses. */
export function split(filter) {
  const terms = [""];
  let [depth, isQuoted, isJoined] = [0, false, false];
  for (let at = 0; at < filter.length; at++) {
    const letter = filter[at];
    const isTop = depth === 0 && !isQuoted;
    if (isTop && /\s/.test(letter)) {
      terms.push("");
      continue;
    }
    terms[terms.length - 1] += letter;
    if (isQuoted && letter === "\\") terms[terms.length - 1] += filter[++at] ?? "";
    else if (letter === '"') isQuoted = !isQuoted;
    else if (!isQuoted && letter === "(") depth++;
    else if (!isQuoted && letter === ")") depth--;
    else if (isTop && letter === "|") isJoined ||= JOINS.test(filter.slice(at)) || terms.at(-1) === "|";
  }
  return isJoined ? [`(${filter.trim()})`] : terms.filter(Boolean);
}

/** The filter with this term instead of the others of its row, or without it if it is there. */
export function toggle(filter, term, row) {
  const terms = split(filter);
  const others = terms.filter((it) => !row.includes(it));
  return (terms.includes(term) ? others : [...others, term]).join(" ");
}
