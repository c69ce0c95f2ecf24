// The script of tables, in a page or in a notebook's output.
import { sortTables } from "./host/sort.ts";

sortTables(document);
