/**
 * Talking to /api, or reading the files of a published site in its place. Every error, whatever its cause, comes out as a
 * Problem with what, where and remedy.
 * @module api
 */

import { published } from "./published.js";
import { at } from "./site.js";
import { hasUnknownTexts, rememberTexts, titled } from "./text_names.js";

/**
 * A change of a recipe that would mend it: words for a button, and values under the public names of fields.
 * @typedef {{words: string, values: Record<string, any>}} Fix
 */

/** An error in the three parts that the command line and the REST interface use too. */
export class Problem extends Error {
  /**
   * @param {{kind?: string, what: string, where?: string | null, remedy?: string | null, field?: string,
   *   fixes?: Fix[]}} parts
   */
  constructor({ kind = "error", what, where, remedy, field = "", fixes = [] }) {
    super(what);
    this.kind = kind;
    this.what = what;
    this.where = where ?? "";
    this.remedy = remedy ?? "";
    this.field = field;
    this.fixes = fixes;
  }
}

/**
 * A Problem made of anything that was thrown.
 * @param {unknown} error
 * @param {string} [where]
 */
export function asProblem(error, where = "") {
  if (error instanceof Problem) return error;
  const what = (error instanceof Error && error.message) || "Something went wrong in this page";
  return new Problem({ what, where, remedy: "Reload the page." });
}

/**
 * What pages say while the server is silent, to a request or in a stream.
 * @param {string} [remedy] what is known about the work meanwhile
 */
export const offline = (remedy = "Runs go on without this page. Check that sarqc is running, then try again.") =>
  new Problem({ kind: "offline", what: "The server does not answer.", where: location.host, remedy });

/**
 * JSON from the server.
 * @param {string} path below /api, e.g. "/runs"
 * @param {{method?: string, body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>} the caller says which shape it asked for
 */
export async function request(path, { method = "GET", body, signal } = {}) {
  if (published) return fromFiles(path, method);
  const isFile = body instanceof Blob; // is sent as it is
  let response;
  try {
    response = await fetch(at(`/api${path}`), {
      method,
      signal,
      headers: body === undefined || isFile ? {} : { "Content-Type": "application/json" },
      body: body === undefined || isFile ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (error instanceof Error && error.name === "AbortError") throw error;
    throw offline();
  }
  if (response.status === 204) return null;
  if (!response.ok) throw await problemOf(response, path);
  const text = await response.text();
  const [document, isList] = [parsed(text), method === "GET" && path === "/texts"];
  if (isList) rememberTexts(document?.texts ?? []);
  if (path.startsWith("/texts") || (method !== "GET" && path !== "/plan")) return document;
  return TEXTS.test(text) ? shown(document, text) : document;
}

const TEXTS = /text-[0-9a-f]{24}/;

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** A document with the titles of the visitor's texts, which are asked for once. @param {any} document @param {string} text */
async function shown(document, text) {
  if (hasUnknownTexts(text)) await request("/texts").catch(() => null); // those of others have no title here
  return titled(document);
}

/**
 * A file from the server, whole.
 * @param {string} path below /api
 * @returns {Promise<Blob>}
 */
export async function file(path) {
  const response = await fetch(at(`/api${path}`)).catch(() => {
    throw offline();
  });
  if (!response.ok) throw await problemOf(response, path);
  return response.blob();
}

/** The error that an answer is. @param {Response} response @param {string} path */
async function problemOf(response, path) {
  const document = await response.json().catch(() => null);
  return new Problem(
    titled(document?.error) ?? {
      what: `The server answered ${response.status}.`,
      where: path,
      remedy: "Try again; the server's log has more.",
    },
  );
}

/** @param {string} path @param {string} method */
async function fromFiles(path, method) {
  const [, , study = ""] = path.split("?")[0].split("/");
  const document = method === "GET" ? await published?.answer(path) : undefined;
  if (document !== undefined) return document;
  const remedy = published?.contents[decodeURIComponent(study)]?.remedy;
  throw new Problem({ kind: "not_found", what: "This is not among the files of this site.", where: path, remedy });
}

/**
 * Whether a view can be had: of a server any, of a published site those that it was made with.
 * @param {string} path below /api
 */
export const holds = (path) => published?.holds(path) ?? true;

/** Where a study can be downloaded. @param {string} study @returns {{name: string, address: string}[]} */
export const downloads = (study) =>
  published?.filesOf(study) ?? [
    { name: "the study", address: at(`/api/studies/${encodeURIComponent(study)}/download`) },
  ];

/**
 * Where a file is with which pages run a study's model.
 * @param {string} study
 * @param {{name: string, version: string}} file
 */
export const modelFile = (study, { name, version }) => {
  const path = published
    ? `${published.site.folders[study]}model/${name}?v=${version}`
    : at(`/api/studies/${encodeURIComponent(study)}/model/${name}?v=${version}`);
  return new URL(path, document.baseURI).href;
};

/** The page of a study. @param {string} study */
export const studyPage = (study) => published?.site.folders[study] ?? at(`/?study=${encodeURIComponent(study)}`);

/** @type {Map<string, Promise<ArrayBuffer>>} */
const opened = new Map();

/**
 * Bytes of a study's array, or a slice of it, kept once fetched. A server that ignores ranges still works.
 * @param {string} study
 * @param {{file: string, version: string, offset: number, length: number}} info
 * @returns {Promise<ArrayBuffer>}
 */
export function arrayBytes(study, info) {
  if (published) return published.bytes(study, info);
  // The place is in the address too: browsers let requests for one address wait for each other.
  const path = at(`/api/studies/${encodeURIComponent(study)}/${info.file}?v=${info.version}&at=${info.offset}`);
  let bytes = opened.get(path);
  if (!bytes) {
    const last = info.offset + info.length - 1;
    bytes = fetch(path, { headers: { Range: `bytes=${info.offset}-${last}` } }).then(async (response) => {
      if (!response.ok) throw new Problem({ what: "The numbers of this surface can't be fetched.", where: info.file });
      const buffer = await response.arrayBuffer();
      return response.status === 206 ? buffer : buffer.slice(info.offset, info.offset + info.length);
    });
    bytes.catch(() => opened.delete(path));
    opened.set(path, bytes);
    // A study has many layers; only the last few are worth keeping.
    if (opened.size > 24) opened.delete(opened.keys().next().value ?? "");
  }
  return bytes;
}

/**
 * Listens to a stream of JSON messages until `close()`. The browser reconnects by itself and says where it stopped.
 * @param {string} path below /api
 * @param {object} handlers
 * @param {(document: any, id: string) => void} handlers.message hears each document; the caller says which shape it has
 * @param {(word: "open" | "lost") => void} [handlers.state]
 */
export function listen(path, { message, state = () => {} }) {
  const source = new EventSource(at(`/api${path}`));
  source.onmessage = (event) => {
    let document;
    try {
      document = JSON.parse(event.data);
    } catch {
      return;
    }
    message(titled(document), event.lastEventId);
  };
  source.onopen = () => state("open");
  source.onerror = () => state("lost");
  return { close: () => source.close() };
}
