// The module that notebooks and pages load.
import { render } from "./host/notebook.ts";
import { startPage } from "./host/page.ts";

export { mount } from "./host/mount.ts";
export default { render };

if (typeof document !== "undefined") startPage();
