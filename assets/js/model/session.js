/**
 * The models of a study at work on a text: the float one, the one at the shown λ and the one at λ = 0. What is asked while an
 * answer is being made takes its place: each piece of work ends when a newer request is there.
 * @module model/session
 */

import { bytesOf, inScript, withKernel } from "./arithmetic.js";
import { tensorsOf } from "./container.js";
import { Llama, nothingRead, Scratch, sizesOf } from "./llama.js";
import {
  divergences,
  greatest,
  likeliest,
  logProbabilities,
  MOST_TOKENS,
  mean,
  parting,
  writing,
} from "./predictions.js";
import { sentencesOf } from "./sentences.js";
import { vocabularyOf } from "./vocabulary.js";
import { commonOf, emptyLinears, readCodes, readLinears } from "./weights.js";

/** @import { Arithmetic } from "./arithmetic.js" */
/** @import { Likely } from "./predictions.js" */

/** @typedef {(name: string, told?: (bytes: number) => void) => Promise<ArrayBuffer>} Fetched the bytes of a file by its name */
/** @typedef {{shown: string, zero: string|null, bits: number}} Files names of the files with the codes at the shown λ and at λ = 0, where they are kept, and the bits of a code */
/** @typedef {{text: string, probability: number}} NextWord */
/**
 * @typedef {object} Reading of a text by the three models
 * @property {string[]} pieces the text, token by token
 * @property {number[]} shown KL(float ‖ quantized at the shown λ) of what follows each token, nats
 * @property {number[]|null} zero the same at λ = 0; null where no codes of it are kept, as below
 * @property {Record<"float"|"shown", NextWord[]> & {zero: NextWord[]|null}} next the five likeliest next tokens
 * @property {boolean} isCut whether the text had more tokens than are read
 */
/** @typedef {Record<"float"|"shown", string[]> & {zero: string[]|null, parts: {shown: number|null, zero: number|null}}} Written texts written on, token by token, and where each parts from the float one's */
/**
 * @typedef {object} Broken a sentence that λ = 0 breaks more than the shown λ
 * @property {string} text
 * @property {number} count of sentences tried
 * @property {number} wins of the shown λ among them
 * @property {{shown: number, zero: number}} own mean KL of the sentence
 * @property {{shown: number, zero: number}} all mean KL over all sentences
 */

const WRITTEN = 32; // tokens
const LIKELIEST = 5;
const SENTENCES = 60;
const AT_ONCE = 8; // tokens written before others get their turn

/** A model that is asked, with what it said of the present text. */
export class Asked {
  /** @param {Llama} model */
  constructor(model) {
    this.model = model;
    /** @type {number[]} */
    this.tokens = []; // of the text that was read last
    /** @type {Float32Array} */
    this.logs = new Float32Array(0); // of what follows each of them
    this.past = nothingRead(model.sizes, MOST_TOKENS + WRITTEN);
    /** @type {number[]|null} */
    this.written = null;
  }

  /** Reads a text; what it begins with like the last one is kept. @param {number[]} tokens */
  read(tokens) {
    const kept = parting(tokens, this.tokens) ?? tokens.length;
    if (kept === tokens.length && kept === this.tokens.length) return;
    const { words } = this.model.sizes;
    this.past.length = kept;
    const logs = new Float32Array(tokens.length * words);
    logs.set(this.logs.subarray(0, kept * words));
    if (kept < tokens.length)
      logs.set(logProbabilities(this.model.read(tokens.slice(kept), this.past), words), kept * words);
    this.logs = logs;
    this.tokens = tokens;
    this.written = null;
  }

  /** The token after the text. */
  get first() {
    return greatest(this.logs, this.model.sizes.words);
  }

  forget() {
    this.tokens = [];
    this.written = null;
  }
}

export class Session {
  /**
   * @param {Fetched} fetched
   * @param {Arithmetic} arithmetic
   * @param {import("./vocabulary.js").Vocabulary} vocabulary
   * @param {{float: Llama, shown: Llama, zero: Llama}} models
   * @param {{text: string, end: number}} given text with the candidate sentences, the token that ends a text
   */
  constructor(fetched, arithmetic, vocabulary, models, { text, end }) {
    this.fetched = fetched;
    this.arithmetic = arithmetic;
    this.vocabulary = vocabulary;
    this.float = new Asked(models.float);
    this.shown = new Asked(models.shown);
    this.zero = new Asked(models.zero);
    this.text = text;
    this.end = end;
    this.hasZero = true; // whether codes at λ = 0 are kept
    /** @type {Map<Asked, string>} file whose codes a model has */
    this.loaded = new Map();
  }

  /**
   * Fetches the float model and makes room for the quantized ones.
   * @param {Fetched} fetched
   * @param {{inScript?: boolean}} [options] whether to do without WebAssembly
   * @returns {Promise<Session>}
   */
  static async open(fetched, options = {}) {
    const json = async (/** @type {string} */ name) => JSON.parse(new TextDecoder().decode(await fetched(name)));
    const [config, tokenizer] = [await json("config.json"), await json("tokenizer.json")];
    const text = new TextDecoder().decode(await fetched("held_out.txt"));
    const tensors = tensorsOf(await fetched("model.safetensors"), "model.safetensors");
    const sizes = sizesOf(config);
    const arithmetic = arithmeticFor(sizes, options.inScript ?? false);
    const take = arithmetic.take;
    const common = commonOf(tensors, sizes, take);
    const scratch = new Scratch(sizes, MOST_TOKENS, take);
    const model = () => new Llama(sizes, arithmetic, common, emptyLinears(sizes, take), scratch);
    const models = { float: model(), shown: model(), zero: model() };
    readLinears(tensors, models.float.blocks);
    const given = { text, end: config.eos_token_id };
    return new Session(fetched, arithmetic, vocabularyOf(tokenizer), models, given);
  }

  /** Gives the quantized models the codes of two files. @param {Files} files */
  async load({ shown, zero, bits }) {
    this.hasZero = zero !== null;
    for (const [asked, file] of /** @type {[Asked, string|null][]} */ ([
      [this.zero, zero],
      [this.shown, shown],
    ])) {
      if (file === null || this.loaded.get(asked) === file) continue;
      const { model } = asked;
      this.loaded.delete(asked); // half of the codes are no model
      readCodes(tensorsOf(await this.fetched(file), file), model.sizes, bits, model.blocks);
      asked.forget();
      this.loaded.set(asked, file);
    }
  }

  /** The models that have weights. */
  get present() {
    return this.hasZero ? [this.float, this.zero, this.shown] : [this.float, this.shown];
  }

  /** The tokens of a text that are read. @param {string} text */
  tokensOf(text) {
    const all = this.vocabulary.tokens(text);
    return { tokens: all.slice(0, MOST_TOKENS), isCut: all.length > MOST_TOKENS };
  }

  /**
   * What the three models predict along a text; null for a text without tokens.
   * @param {string} text
   * @returns {Reading|null}
   */
  read(text) {
    const { tokens, isCut } = this.tokensOf(text);
    if (!tokens.length) return null;
    for (const asked of this.present) asked.read(tokens);
    const { words } = this.float.model.sizes;
    const next = (/** @type {Asked} */ { logs }) =>
      likeliest(logs, words, LIKELIEST).map((likely) => this.named(likely));
    return {
      pieces: tokens.map((token) => this.vocabulary.text([token])),
      shown: divergences(this.float.logs, this.shown.logs, words),
      zero: this.hasZero ? divergences(this.float.logs, this.zero.logs, words) : null,
      next: { float: next(this.float), shown: next(this.shown), zero: this.hasZero ? next(this.zero) : null },
      isCut,
    };
  }

  /** @param {Likely} likely @returns {NextWord} */
  named({ token, probability }) {
    return { text: this.vocabulary.text([token]), probability };
  }

  /**
   * The texts that the models write on, of what was read last; null where something newer is wanted.
   * @param {() => Promise<boolean>} goesOn lets others have their turn
   * @returns {Promise<Written|null>}
   */
  async write(goesOn) {
    for (const asked of this.present) {
      if (asked.written) continue;
      const { model, past, first } = asked;
      const read = past.length;
      /** @type {number[]} */
      const tokens = [];
      for (const token of writing(model, past, first, WRITTEN, this.end)) {
        tokens.push(token);
        if (tokens.length % AT_ONCE === 0 && !(await goesOn())) {
          past.length = read;
          return null;
        }
      }
      past.length = read;
      asked.written = tokens;
    }
    const [float, shown, zero] = [this.float, this.shown, this.zero].map(({ written }) => written ?? []);
    const texts = (/** @type {number[]} */ tokens) => tokens.map((token) => this.vocabulary.text([token]));
    return {
      float: texts(float),
      shown: texts(shown),
      zero: this.hasZero ? texts(zero) : null,
      parts: { shown: parting(float, shown), zero: this.hasZero ? parting(float, zero) : null },
    };
  }

  /**
   * The sentence of the held-out text whose mean KL at λ = 0 exceeds that at the shown λ most; null where something newer is
   * wanted, and where no codes at λ = 0 are kept.
   * @param {() => Promise<boolean>} goesOn
   * @param {(done: number, of: number) => void} told
   * @returns {Promise<Broken|null>}
   */
  async search(goesOn, told) {
    if (!this.hasZero) return null;
    const sentences = sentencesOf(this.text, SENTENCES);
    /** @type {{text: string, shown: number, zero: number}[]} */
    const tried = [];
    for (const text of sentences) {
      if (!(await goesOn())) return null;
      const read = this.read(text);
      if (read?.zero) tried.push({ text, shown: mean(read.shown), zero: mean(read.zero) });
      told(tried.length, sentences.length);
    }
    const worst = tried.reduce((most, one) => (one.zero - one.shown > most.zero - most.shown ? one : most));
    const all = { shown: mean(tried.map(({ shown }) => shown)), zero: mean(tried.map(({ zero }) => zero)) };
    const { text, ...own } = worst;
    return { text, count: tried.length, wins: tried.filter(({ shown, zero }) => shown < zero).length, own, all };
  }
}

/**
 * Arithmetic with room for three models; in plain JavaScript where the browser has no WebAssembly with vectors.
 * @param {import("./llama.js").Sizes} sizes
 * @param {boolean} isPlain
 */
function arithmeticFor(sizes, isPlain) {
  let bytes = 0;
  const count = (/** @type {number} */ numbers) => {
    bytes += bytesOf(numbers);
    return new Float32Array(0);
  };
  for (let norm = 0; norm <= 2 * sizes.blocks; norm += 1) count(sizes.width);
  count(sizes.words * sizes.width);
  new Scratch(sizes, MOST_TOKENS, count);
  for (let model = 0; model < 3; model += 1) emptyLinears(sizes, count);
  if (isPlain) return inScript(bytes);
  try {
    return withKernel(bytes);
  } catch (error) {
    if (error instanceof RangeError) throw error; // no memory, and none for plain JavaScript either
    return inScript(bytes); // the card says so
  }
}
