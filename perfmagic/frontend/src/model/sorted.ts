// Searching in rising columns.

type Rising = ArrayLike<number>;

/** How many values are below `value`. */
export function below(values: Rising, value: number, from = 0, to = values.length): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] < value) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** How many values are `value` or below. */
export function upTo(values: Rising, value: number, from = 0, to = values.length): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] <= value) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** As `upTo`, for a value not far after the place `from`: strides that double, then the search between them. */
export function gallop(values: Rising, value: number, from: number): number {
  const n = values.length;
  let stride = 1;
  let low = from;
  let high = from;
  while (high < n && values[high] <= value) {
    low = high + 1;
    high += stride;
    stride *= 2;
  }
  return upTo(values, value, low, high < n ? high : n);
}

const marked = new WeakMap<Rising, Map<Rising, Int32Array>>();

/** How many values are at or below each of some rising edges; kept while the edges are, as several painters ask. */
export function marksOf(values: Rising, edges: Rising): Int32Array {
  let known = marked.get(edges);
  if (!known) marked.set(edges, (known = new Map<Rising, Int32Array>()));
  let marks = known.get(values);
  if (!marks) {
    known.set(values, (marks = new Int32Array(edges.length)));
    let at = upTo(values, edges[0]);
    for (let i = 0; i < edges.length; i++) marks[i] = at = gallop(values, edges[i], at);
  }
  return marks;
}

/** Whether no value is below the one before it. */
export function rises(values: Rising): boolean {
  for (let i = 1; i < values.length; i++) if (values[i] < values[i - 1]) return false;
  return true;
}

/** The values of some rows; `Float64Array.from` with a function takes several times as long. */
export function picked(values: Float64Array, rows: Int32Array | number[]): Float64Array {
  return new Float64Array(rows).map((row) => values[row]);
}
