// A timeline as the Jupyter server has it read: asked for again until it is there.
import type { Services, Settings } from "./jupyter.ts";

export interface Wire {
  header: string;
  payload: Uint8Array;
}

/** How far the server is. of: files of a folder, 0 where that is not known yet. */
export interface Progress {
  waits: boolean;
  size_bytes: number;
  seconds: number;
  files: number;
  of: number;
}

/** What does not open, in the server's words. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

const READING = 202;
const NOT_THERE = "This Jupyter server does not have perfmagic";
const INSTALL = "run `pip install perfmagic` in the environment that Jupyter runs in, and start Jupyter again";

export async function fetchWire(
  path: string,
  services: Services,
  settings: Settings,
  signal: AbortSignal,
  told: (progress: Progress) => void,
): Promise<Wire> {
  const url = `${settings.baseUrl}perfmagic/timeline/${path.split("/").map(encodeURIComponent).join("/")}`;
  for (;;) {
    const answer = await services.ServerConnection.makeRequest(url, { signal, cache: "no-store" }, settings);
    signal.throwIfAborted();
    if (answer.status === READING) {
      told((await answer.json()) as Progress); // the server has waited, so this loop is slow
      continue;
    }
    if (!answer.ok) throw await refusal(answer);
    return apart(await answer.arrayBuffer());
  }
}

async function refusal(answer: Response): Promise<Refused> {
  const said = (await answer.json().catch(() => ({}))) as { message?: string; hint?: string };
  if (said.message) return new Refused(said.message, said.hint);
  // an unknown address is answered with a page
  return answer.status === 404 ? new Refused(NOT_THERE, INSTALL) : new Refused(`${answer.status} ${answer.statusText}`);
}

/** Four bytes: how long the header is; the header; the payload. */
function apart(whole: ArrayBuffer): Wire {
  const length = new DataView(whole).getUint32(0, true);
  return {
    header: new TextDecoder().decode(new Uint8Array(whole, 4, length)),
    payload: new Uint8Array(whole, 4 + length),
  };
}
