// Tables of a page or an output that a click on a heading sorts, by the numbers that its cells stand for.
const SLOT = "table[data-perfmagic-sort]";
const LOOK =
  "all:unset;cursor:pointer;font:inherit;color:inherit;text-decoration:underline dotted;text-underline-offset:3px";

/** Makes headings buttons in every table that says so; again does no harm. */
export function sortTables(root: ParentNode): void {
  for (const table of root.querySelectorAll<HTMLTableElement>(SLOT)) {
    if (table.dataset.perfmagicSort === "on") continue;
    table.dataset.perfmagicSort = "on";
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    heads.forEach((head, column) => arm(table, heads, head, column));
  }
}

function arm(table: HTMLTableElement, heads: HTMLTableCellElement[], head: HTMLTableCellElement, column: number): void {
  const button = document.createElement("button");
  button.type = "button";
  button.style.cssText = LOOK;
  button.append(...head.childNodes);
  if (!button.textContent) button.textContent = "\u2195";
  button.title = "sort";
  button.addEventListener("focus", () => (button.style.outline = "2px solid"));
  button.addEventListener("blur", () => (button.style.outline = ""));
  button.addEventListener("click", () => {
    const rising = head.getAttribute("aria-sort") === "descending" || (!numeric(table, column) && !sorted(head));
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    sort(table, column, rising ? 1 : -1);
  });
  head.append(button);
}

function sorted(head: HTMLTableCellElement): boolean {
  return head.hasAttribute("aria-sort");
}

function numeric(table: HTMLTableElement, column: number): boolean {
  return [...(table.tBodies[0]?.rows ?? [])].some((row) => row.cells[column]?.dataset.value !== undefined);
}

/** Empty cells come last in either direction; rows that tie keep their order. */
function sort(table: HTMLTableElement, column: number, sign: 1 | -1): void {
  const body = table.tBodies[0];
  if (!body) return;
  body.append(...order([...body.rows], (row) => keyOf(row.cells[column]), sign));
}

function keyOf(cell: HTMLTableCellElement | undefined): number | string | null {
  if (!cell) return null;
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.textContent?.trim() || null;
}

export function order<T>(rows: T[], key: (row: T) => number | string | null, sign: 1 | -1): T[] {
  const keyed = rows.map((row) => ({ row, key: key(row) }));
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return Number(a.key === null) - Number(b.key === null);
    if (typeof a.key === "number" && typeof b.key === "number") return sign * (a.key - b.key);
    return sign * String(a.key).localeCompare(String(b.key), undefined, { numeric: true });
  });
  return keyed.map((one) => one.row);
}
