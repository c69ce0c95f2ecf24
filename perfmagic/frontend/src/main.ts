// The module that notebooks and pages load.
import { render } from "./host_notebook.ts";
import { startPage } from "./host_page.ts";

export { mount } from "./mount.ts";
export default { render };

if (typeof document !== "undefined") startPage();
