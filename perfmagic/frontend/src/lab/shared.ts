// The contract between a Jupyter front end and a prebuilt extension, written out: a script that puts { init, get } under
// its name into window._JUPYTERLAB. `init` is given the modules that the front end shares. The containers that webpack
// and rspack make keep the same one; JupyterLab 4.0 to 4.6 and Notebook 7.0 to 7.6 use it.

interface Offer {
  get(): Promise<() => unknown>;
  loaded?: unknown;
}

export type Scope = Record<string, Record<string, Offer>>;

let scope: Scope = {};

export function accept(given: Scope): void {
  scope = given;
}

/** A module of the front end, the very one that it uses itself: the loaded version, else the newest. */
export async function shared<T>(name: string): Promise<T> {
  const offers = Object.entries(scope[name] ?? {});
  if (offers.length === 0) throw new Error(`this front end does not share ${name}`);
  const [, offer] = offers.reduce((best, one) => {
    if (!best[1].loaded !== !one[1].loaded) return one[1].loaded ? one : best;
    return isNewer(one[0], best[0]) ? one : best;
  });
  return (await offer.get())() as T;
}

/** The same where a front end may do without it. */
export async function sharedIfAny<T>(name: string): Promise<T | null> {
  return scope[name] ? shared<T>(name) : null;
}

function isNewer(a: string, b: string): boolean {
  const [x, y] = [a, b].map((version) => version.split(/[.+-]/).map(Number));
  for (let i = 0; i < 3; i++) if (x[i] !== y[i]) return x[i] > y[i];
  return a.length < b.length; // 4.0.0 before 4.0.0-rc.1
}
