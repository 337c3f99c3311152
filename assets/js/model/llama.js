/**
 * A language model of the LLaMA architecture in single precision: sizes, weights, and a pass over tokens that goes on from
 * those read before.
 * @module model/llama
 */

/** @import { Arithmetic } from "./arithmetic.js" */

/**
 * @typedef {object} Sizes
 * @property {number} blocks
 * @property {number} width of the residual stream
 * @property {number} inner width of the feed-forward part
 * @property {number} heads
 * @property {number} shared heads of keys and values
 * @property {number} head width of a head
 * @property {number} words of the vocabulary
 * @property {number} positions at most
 * @property {number} epsilon of the norms
 * @property {number} theta of the rotary embedding
 */
/** @typedef {Record<"q"|"k"|"v"|"o"|"gate"|"up"|"down", Float32Array>} Linears of a block, (outputs × inputs) each */
/** @typedef {{norms: Float32Array[], embedding: Float32Array}} Common norms (two of each block and the last), and the embedding, which is the head too */
/** @typedef {{keys: Float32Array[], values: Float32Array[], length: number}} Past keys and values of each block, and how many tokens they are of */

/** The linears of a block, by their names in checkpoints. */
export const NAMES = /** @type {const} */ ({
  q: "self_attn.q_proj",
  k: "self_attn.k_proj",
  v: "self_attn.v_proj",
  o: "self_attn.o_proj",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
});

/** The largest sizes: far beyond any model that a page can run. @type {Record<string, number>} */
const MOST = {
  num_hidden_layers: 1000,
  hidden_size: 1 << 16,
  intermediate_size: 1 << 18,
  num_attention_heads: 1 << 10,
  num_key_value_heads: 1 << 10,
  head_dim: 1 << 12,
  vocab_size: 1 << 21,
  max_position_embeddings: 1 << 24,
};

/**
 * Sizes from `config.json`.
 * @param {Record<string, any>} config
 * @returns {Sizes}
 */
export function sizesOf(config) {
  const rope = config.rope_parameters ?? {};
  const wanted = {
    model_type: "llama",
    hidden_act: "silu",
    attention_bias: false,
    mlp_bias: false,
    tie_word_embeddings: true,
  };
  for (const [name, value] of Object.entries(wanted))
    if (config[name] !== value)
      throw new Error(`This page can’t run the model: ${name} is ${config[name]}, not ${value}.`);
  if (rope.rope_type !== "default") throw new Error(`This page can’t run the model: rope_type is ${rope.rope_type}.`);
  for (const [name, most] of Object.entries(MOST))
    if (!Number.isInteger(config[name]) || config[name] < 1 || config[name] > most)
      throw new Error(`config.json can’t be read: ${name} is ${config[name]}, not a whole number from 1 to ${most}.`);
  return {
    blocks: config.num_hidden_layers,
    width: config.hidden_size,
    inner: config.intermediate_size,
    heads: config.num_attention_heads,
    shared: config.num_key_value_heads,
    head: config.head_dim,
    words: config.vocab_size,
    positions: config.max_position_embeddings,
    epsilon: config.rms_norm_eps,
    theta: rope.rope_theta,
  };
}

/**
 * Outputs and inputs of a block's linears.
 * @param {Sizes} sizes
 * @returns {Record<keyof Linears, [outputs: number, inputs: number]>}
 */
export function shapesOf({ width, inner, heads, shared, head }) {
  return {
    q: [heads * head, width],
    k: [shared * head, width],
    v: [shared * head, width],
    o: [width, heads * head],
    gate: [inner, width],
    up: [inner, width],
    down: [width, inner],
  };
}

/** Scratch memory for passes over up to a number of tokens. */
export class Scratch {
  /**
   * @param {Sizes} sizes
   * @param {number} tokens
   * @param {(count: number) => Float32Array} take
   */
  constructor(sizes, tokens, take) {
    const { width, inner, heads, shared, head, words } = sizes;
    this.tokens = tokens;
    this.states = take(tokens * width);
    this.normed = take(tokens * width);
    this.queries = take(tokens * heads * head);
    this.keys = take(tokens * shared * head);
    this.values = take(tokens * shared * head);
    this.mixed = take(tokens * heads * head);
    this.added = take(tokens * width);
    this.gate = take(tokens * inner);
    this.up = take(tokens * inner);
    this.logits = take(tokens * words);
  }
}

/** An empty cache of keys and values with room for a number of tokens. @param {Sizes} sizes @param {number} tokens @returns {Past} */
export function nothingRead({ blocks, shared, head }, tokens) {
  const room = () => Array.from({ length: blocks }, () => new Float32Array(tokens * shared * head));
  return { keys: room(), values: room(), length: 0 };
}

/** A model with its weights. */
export class Llama {
  /**
   * @param {Sizes} sizes
   * @param {Arithmetic} arithmetic
   * @param {Common} common
   * @param {Linears[]} blocks
   * @param {Scratch} scratch which other models may share
   */
  constructor(sizes, arithmetic, common, blocks, scratch) {
    this.sizes = sizes;
    this.arithmetic = arithmetic;
    this.common = common;
    this.blocks = blocks;
    this.scratch = scratch;
    this.shapes = shapesOf(sizes);
    this.frequencies = Array.from({ length: sizes.head / 2 }, (_, i) => sizes.theta ** ((-2 * i) / sizes.head));
  }

  /**
   * Logits (tokens × words) of what follows each token, in memory that the next pass writes over.
   * @param {number[]} tokens at most those of the scratch
   * @param {Past} past what was read before; these tokens are added
   * @returns {Float32Array}
   */
  read(tokens, past) {
    const { scratch, common, arithmetic, sizes } = this;
    const { width, words } = sizes;
    tokens.forEach((token, t) => {
      scratch.states.set(common.embedding.subarray(token * width, (token + 1) * width), t * width);
    });
    this.blocks.forEach((block, index) => {
      this.attend(block, index, tokens.length, past);
      this.feed(block, index, tokens.length);
    });
    past.length += tokens.length;
    this.norm(2 * sizes.blocks, tokens.length);
    arithmetic.products(scratch.normed, common.embedding, scratch.logits, tokens.length, words, width);
    return scratch.logits.subarray(0, tokens.length * words);
  }

  /** `normed` of `states`. @param {number} number of the norm @param {number} tokens */
  norm(number, tokens) {
    const { states, normed } = this.scratch;
    const { width, epsilon } = this.sizes;
    const weight = this.common.norms[number];
    for (let t = 0; t < tokens; t += 1) {
      let sum = 0;
      for (let i = t * width; i < (t + 1) * width; i += 1) sum += states[i] * states[i];
      const factor = 1 / Math.sqrt(sum / width + epsilon);
      for (let i = 0; i < width; i += 1) normed[t * width + i] = states[t * width + i] * factor * weight[i];
    }
  }

  /** @param {keyof Linears} name @param {Linears} block @param {Float32Array} x @param {Float32Array} y @param {number} tokens */
  linear(name, block, x, y, tokens) {
    const [outputs, inputs] = this.shapes[name];
    this.arithmetic.products(x, block[name], y, tokens, outputs, inputs);
  }

  /** @param {number} tokens */
  add(tokens) {
    const { states, added } = this.scratch;
    for (let i = 0; i < tokens * this.sizes.width; i += 1) states[i] += added[i];
  }

  /** @param {Linears} block @param {number} index @param {number} tokens @param {Past} past */
  attend(block, index, tokens, past) {
    const { normed, queries, keys, values, mixed, added } = this.scratch;
    const { heads, shared, head } = this.sizes;
    this.norm(2 * index, tokens);
    this.linear("q", block, normed, queries, tokens);
    this.linear("k", block, normed, keys, tokens);
    this.linear("v", block, normed, values, tokens);
    this.rotate(queries, heads, tokens, past.length);
    this.rotate(keys, shared, tokens, past.length);
    const row = shared * head;
    const [allKeys, allValues] = [past.keys[index], past.values[index]];
    allKeys.set(keys.subarray(0, tokens * row), past.length * row);
    allValues.set(values.subarray(0, tokens * row), past.length * row);
    const weights = new Float64Array(past.length + tokens);
    for (let t = 0; t < tokens; t += 1)
      for (let h = 0; h < heads; h += 1) {
        const own = Math.floor((h * shared) / heads) * head;
        const query = queries.subarray((t * heads + h) * head, (t * heads + h + 1) * head);
        const out = mixed.subarray((t * heads + h) * head, (t * heads + h + 1) * head);
        mix(query, allKeys, allValues, out, weights, past.length + t + 1, row, own);
      }
    this.linear("o", block, mixed, added, tokens);
    this.add(tokens);
  }

  /** @param {Linears} block @param {number} index @param {number} tokens */
  feed(block, index, tokens) {
    const { normed, gate, up, added } = this.scratch;
    this.norm(2 * index + 1, tokens);
    this.linear("gate", block, normed, gate, tokens);
    this.linear("up", block, normed, up, tokens);
    for (let i = 0; i < tokens * this.sizes.inner; i += 1) gate[i] = (gate[i] / (1 + Math.exp(-gate[i]))) * up[i];
    this.linear("down", block, gate, added, tokens);
    this.add(tokens);
  }

  /**
   * Rotary positions: the first half of a head's numbers with the second.
   * @param {Float32Array} all (tokens × heads × head)
   * @param {number} heads
   * @param {number} tokens
   * @param {number} first position
   */
  rotate(all, heads, tokens, first) {
    const { head } = this.sizes;
    const half = head / 2;
    for (let t = 0; t < tokens; t += 1)
      for (let i = 0; i < half; i += 1) {
        const angle = (first + t) * this.frequencies[i];
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        for (let at = t * heads * head + i; at < (t + 1) * heads * head; at += head) {
          const [x, y] = [all[at], all[at + half]];
          all[at] = x * cos - y * sin;
          all[at + half] = y * cos + x * sin;
        }
      }
  }
}

/**
 * What a head takes of the values of the tokens up to its own.
 * @param {Float32Array} query
 * @param {Float32Array} keys
 * @param {Float32Array} values
 * @param {Float32Array} out
 * @param {Float64Array} weights scratch
 * @param {number} count of tokens
 * @param {number} row numbers of a token's keys
 * @param {number} own place of the head's keys in a row
 */
function mix(query, keys, values, out, weights, count, row, own) {
  const scale = 1 / Math.sqrt(query.length);
  let most = -Infinity;
  for (let s = 0; s < count; s += 1) {
    let sum = 0;
    for (let i = 0; i < query.length; i += 1) sum += query[i] * keys[s * row + own + i];
    weights[s] = sum * scale;
    most = Math.max(most, weights[s]);
  }
  let total = 0;
  for (let s = 0; s < count; s += 1) {
    weights[s] = Math.exp(weights[s] - most);
    total += weights[s];
  }
  for (let i = 0; i < query.length; i += 1) {
    let sum = 0;
    for (let s = 0; s < count; s += 1) sum += weights[s] * values[s * row + own + i];
    out[i] = sum / total;
  }
}
