// The script of a table that stands alone in a notebook's output.
import { sortTables } from "./host/sort.ts";

sortTables(document);
