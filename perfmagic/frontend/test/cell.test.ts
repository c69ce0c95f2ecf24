import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { cellSource } from "../src/lab/cell.ts";

interface Cell {
  path: string;
  kind: "file" | "folder";
  source: string;
}

const CELLS = JSON.parse(readFileSync(new URL("../../../tests/data/inserted_cells.json", import.meta.url), "utf8"));

it.each(CELLS as Cell[])("$path stands in its cell as tests/shell/test_inserted_cell.py runs it", (cell) => {
  expect(cellSource(cell.path, cell.kind)).toBe(cell.source);
});
