/**
 * Talking to /api. Every error, whatever its cause, comes out as a Problem with what, where and remedy.
 * @module api
 */

/** An error in the three parts that the command line and the REST interface use too. */
export class Problem extends Error {
  constructor({ kind = "error", what, where = "", remedy = "" }) {
    super(what);
    Object.assign(this, { kind, what, where, remedy });
  }
}

/** A Problem made of anything that was thrown. */
export function asProblem(error, where = "") {
  if (error instanceof Problem) return error;
  return new Problem({
    what: error?.message || "Something went wrong in this page",
    where,
    remedy: "Reload the page.",
  });
}

/**
 * JSON from the server.
 * @param {string} path below /api, e.g. "/runs"
 * @param {{method?: string, body?: any, signal?: AbortSignal}} [options]
 */
export async function request(path, { method = "GET", body, signal } = {}) {
  const isFile = body instanceof Blob; // is sent as it is
  let response;
  try {
    response = await fetch(`/api${path}`, {
      method,
      signal,
      headers: body === undefined || isFile ? {} : { "Content-Type": "application/json" },
      body: body === undefined || isFile ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (error?.name === "AbortError") throw error;
    throw new Problem({
      kind: "offline",
      what: "The server does not answer.",
      where: location.host,
      remedy: "Runs go on without this page. Check that sarqc is running, then try again.",
    });
  }
  if (response.status === 204) return null;
  const document = await response.json().catch(() => null);
  if (response.ok) return document;
  throw new Problem(
    document?.error ?? {
      what: `The server answered ${response.status}.`,
      where: path,
      remedy: "Try again; the server's log has more.",
    },
  );
}

const opened = new Map();

/**
 * Bytes of a study's array, or a slice of it, kept once fetched. A server that ignores ranges still works.
 * @param {string} study
 * @param {{file: string, offset: number, length: number}} info
 * @returns {Promise<ArrayBuffer>}
 */
export function arrayBytes(study, info) {
  const path = `/api/studies/${encodeURIComponent(study)}/arrays/${info.file}`;
  const key = `${path}#${info.offset}`;
  if (!opened.has(key)) {
    const last = info.offset + info.length - 1;
    const asked = fetch(path, { headers: { Range: `bytes=${info.offset}-${last}` } }).then(async (response) => {
      if (!response.ok) throw new Problem({ what: "The numbers of this surface can't be fetched.", where: info.file });
      const buffer = await response.arrayBuffer();
      return response.status === 206 ? buffer : buffer.slice(info.offset, info.offset + info.length);
    });
    asked.catch(() => opened.delete(key));
    opened.set(key, asked);
    // A study has many layers; only the last few are worth keeping.
    if (opened.size > 24) opened.delete(opened.keys().next().value);
  }
  return opened.get(key);
}

/**
 * Listens to a stream of JSON messages until `close()`. The browser reconnects by itself and says where it stopped.
 * @param {string} path below /api
 * @param {{message: Function, state?: Function}} handlers `state` hears "open" and "lost"
 */
export function listen(path, { message, state = () => {} }) {
  const source = new EventSource(`/api${path}`);
  const take = (event) => {
    let document;
    try {
      document = JSON.parse(event.data);
    } catch {
      return;
    }
    message(document, event.lastEventId);
  };
  source.onmessage = take;
  source.onopen = () => state("open");
  source.onerror = () => state("lost");
  return { close: () => source.close() };
}
