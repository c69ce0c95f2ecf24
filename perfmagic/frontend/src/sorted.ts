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

/** As `upTo`, for a value not far after the place `from`: steps that double, then the search between them. */
export function gallop(values: Rising, value: number, from: number): number {
  const n = values.length;
  let step = 1;
  let low = from;
  let high = from;
  while (high < n && values[high] <= value) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  return upTo(values, value, low, high < n ? high : n);
}

/** Whether no value is below the one before it. */
export function rises(values: Rising): boolean {
  for (let i = 1; i < values.length; i++) if (values[i] < values[i - 1]) return false;
  return true;
}
