// Which value of a range is largest, without reading all of it: maxima of blocks, of blocks of blocks, …

const FANOUT = 16;

export class Pyramid {
  /** levels[0] holds the row of the largest value of each block of 16 rows, levels[1] of each 16 of those, … */
  private readonly levels: Int32Array[] = [];

  constructor(private readonly values: ArrayLike<number>) {
    let below: Int32Array | null = null;
    let n = values.length;
    while (n > FANOUT) {
      const size = Math.ceil(n / FANOUT);
      const level = new Int32Array(size);
      for (let block = 0; block < size; block++) {
        const to = Math.min(n, (block + 1) * FANOUT);
        let best = block * FANOUT;
        if (below) {
          let row = below[best];
          for (let i = best + 1; i < to; i++) if (values[below[i]] > values[row]) row = below[i];
          best = row;
        } else {
          for (let i = best + 1; i < to; i++) if (values[i] > values[best]) best = i;
        }
        level[block] = best;
      }
      this.levels.push(level);
      below = level;
      n = size;
    }
  }

  /** The row of the largest value in [from, to), the first of equals; -1 for an empty range. */
  argmax(from: number, to: number): number {
    let best = -1;
    const better = (row: number): void => {
      if (best < 0 || this.values[row] > this.values[best] || (this.values[row] === this.values[best] && row < best)) {
        best = row;
      }
    };
    let level = -1;
    while (from < to) {
      const at = (i: number): number => (level < 0 ? i : this.levels[level][i]);
      if (level + 1 >= this.levels.length || to - from < 2 * FANOUT) {
        for (let i = from; i < to; i++) better(at(i));
        break;
      }
      while (from % FANOUT) better(at(from++));
      while (to % FANOUT) better(at(--to));
      from /= FANOUT;
      to /= FANOUT;
      level++;
    }
    return best;
  }

  /** Calls `take` with every row in [from, to) whose value is at least `least`, in rising order; at most `limit` rows. */
  atLeast(least: number, from: number, to: number, limit: number, take: (row: number) => void): number {
    return this.descend(this.levels.length - 1, least, from, to, limit, take);
  }

  private descend(
    top: number,
    least: number,
    from: number,
    to: number,
    limit: number,
    take: (row: number) => void,
  ): number {
    let taken = 0;
    const visit = (level: number, block: number): void => {
      const width = FANOUT ** (level + 1);
      const first = block * width;
      if (taken >= limit || first >= to || first + width <= from) return;
      if (level >= 0 && this.values[this.levels[level][block]] < least) return;
      if (level === 0) {
        const last = Math.min(to, first + FANOUT, this.values.length);
        for (let i = Math.max(from, first); i < last && taken < limit; i++) {
          if (this.values[i] >= least) {
            take(i);
            taken++;
          }
        }
        return;
      }
      const below = this.levels[level - 1].length;
      for (let i = block * FANOUT; i < Math.min(below, (block + 1) * FANOUT); i++) visit(level - 1, i);
    };
    if (top < 0) {
      for (let i = from; i < to && taken < limit; i++) {
        if (this.values[i] >= least) {
          take(i);
          taken++;
        }
      }
      return taken;
    }
    for (let block = 0; block < this.levels[top].length; block++) visit(top, block);
    return taken;
  }
}
