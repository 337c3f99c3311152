/**
 * The worker in which a session runs: messages in, messages out. The newest request is answered; an older one ends where it
 * is, without an answer.
 * @module model/worker
 */

import { Session } from "./session.js";

/** @import { Broken, Files, Reading, Written } from "./session.js" */

/** @typedef {{name: string, address: string, bytes: number}} Place of a file */
/**
 * @typedef {{kind: "open", places: Place[], first: Place[], inScript?: boolean}
 *   | {kind: "add", places: Place[]}
 *   | {kind: "ask", number: number, text: string, files: Files}
 *   | {kind: "search", number: number, files: Files}} Request `first`: files that are fetched at once, for the progress
 */
/**
 * @typedef {{kind: "fetched", bytes: number} | {kind: "opened", isFast: boolean}
 *   | {kind: "read", number: number, reading: Reading|null} | {kind: "written", number: number, written: Written}
 *   | {kind: "tried", number: number, done: number, of: number} | {kind: "broken", number: number, broken: Broken}
 *   | {kind: "failed", number: number|null, what: string}} Answer
 */

/** Lets what has arrived be heard. */
const turn = () => new Promise((resolve) => setTimeout(resolve));

/** A failure in words: those of this page, or what JavaScript says about files that are not as they should be. @param {unknown} error */
function worded(error) {
  if (!(error instanceof Error) || error.constructor === Error)
    return error instanceof Error ? error.message : `${error}`;
  if (error instanceof RangeError) return `There is too little memory for the model here: ${error.message}.`;
  return `The model’s files are damaged: ${error.message}.`;
}

/**
 * What a worker does with each request.
 * @param {(answer: Answer) => void} post
 * @param {(address: string) => Promise<Response>} get
 * @returns {(request: Request) => Promise<void>}
 */
export function serving(post, get) {
  /** @type {Map<string, Place>} */
  const places = new Map();
  /** @type {Map<string, ArrayBuffer>} codes, kept once fetched */
  const kept = new Map();
  /** @type {Promise<Session>|null} */
  let session = null;
  let newest = 0;
  let fetched = 0; // bytes
  /** @type {Promise<void>} */
  let work = Promise.resolve();

  /** @param {string} name */
  async function bytesOf(name) {
    const before = kept.get(name);
    if (before) return before;
    const place = places.get(name);
    if (!place) throw new Error(`${name} is not among the model’s files.`);
    const away = () => {
      throw new Error(`${name} can’t be fetched: the server does not answer.`);
    };
    const response = await get(place.address).catch(away);
    if (!response.ok || !response.body)
      throw new Error(`${name} can’t be fetched: the server answered ${response.status}.`);
    const whole = new Uint8Array(place.bytes);
    let have = 0;
    const reader = response.body.getReader();
    const next = () => reader.read().catch(away);
    for (let part = await next(); !part.done; part = await next()) {
      if (have + part.value.length > place.bytes) throw new Error(`${name} has more bytes than it should.`);
      whole.set(part.value, have);
      have += part.value.length;
      fetched += part.value.length;
      post({ kind: "fetched", bytes: fetched });
    }
    if (have < place.bytes) throw new Error(`${name} is cut off: ${have} of ${place.bytes} bytes arrived.`);
    if (name !== "model.safetensors") kept.set(name, whole.buffer); // which is in memory as numbers then
    return whole.buffer;
  }

  /** @param {Extract<Request, {number: number}>} request */
  async function answer(request) {
    const { number, files } = request;
    const goesOn = async () => {
      await turn();
      return newest === number;
    };
    if (!session || !(await goesOn())) return;
    const models = await session;
    await models.load(files);
    if (request.kind === "search") {
      const told = (/** @type {number} */ done, /** @type {number} */ of) => post({ kind: "tried", number, done, of });
      const broken = await models.search(goesOn, told);
      if (broken) post({ kind: "broken", number, broken });
      return;
    }
    if (!(await goesOn())) return;
    const reading = models.read(request.text);
    post({ kind: "read", number, reading });
    const written = reading && (await goesOn()) ? await models.write(goesOn) : null;
    if (written) post({ kind: "written", number, written });
  }

  /** @param {Extract<Request, {kind: "open"}>} request */
  async function open({ places: every, first, inScript }) {
    for (const place of every) places.set(place.name, place);
    session = Session.open(bytesOf, { inScript });
    const { arithmetic } = await session;
    for (const { name } of first) if (!kept.has(name) && name !== "model.safetensors") await bytesOf(name);
    post({ kind: "opened", isFast: arithmetic.isFast });
  }

  return (request) => {
    if (request.kind === "add") {
      for (const place of request.places) places.set(place.name, place);
      return work;
    }
    const number = request.kind === "open" ? null : request.number;
    if (number !== null) newest = number;
    // One after the other: models share their memory.
    work = work
      .then(() => (request.kind === "open" ? open(request) : answer(request)))
      .catch((error) => {
        if (request.kind === "open") session = null;
        post({ kind: "failed", number, what: worded(error) });
      });
    return work;
  };
}

if ("WorkerGlobalScope" in globalThis) {
  const serve = serving(
    (answer) => postMessage(answer),
    (address) => fetch(address),
  );
  addEventListener("message", ({ data }) => {
    serve(data);
  });
}
