/**
 * The site as files of a plain server (sarqc/extras/publish/slices.py): answers to what the pages ask the REST interface, joined
 * from the files that `python -m sarqc publish` wrote. The document names them in an element of its own; without that
 * there is a server, and nothing of this is used.
 * @module base/published
 */

/** @typedef {{bits: number, layers: number[], draws: number[]}} LineFiles views of single layers and draws */
/**
 * @typedef {object} Contents what there is of a study
 * @property {Record<string, number>} lines position of a line by “method|bits”
 * @property {LineFiles[]} choices
 * @property {boolean} is_one_layer
 * @property {string[]} files to download
 * @property {string} remedy for those who ask for something else
 */
/**
 * @typedef {object} Site
 * @property {{studies: {id: string}[], first: string}} listing as GET /studies answers
 * @property {Record<string, string>} folders of the studies, from the document
 * @property {Record<string, Contents>} contents of the study that the document is about
 */
/** @typedef {{name: string, line: string, width: string}} Stem names of files of a view, of all its layers, of its width */

const KEPT = 16; // files
const PACKED = [0x1f, 0x8b]; // what gzip begins with

/** A site of files. */
export class Published {
  /**
   * @param {Site} site
   * @param {(address: string) => Promise<ArrayBuffer>} fetched the bytes of a file, from the document's place
   */
  constructor(site, fetched) {
    this.site = site;
    this.fetched = fetched;
    this.contents = { ...site.contents };
    /** @type {Map<string, Promise<any>>} documents by address, the last asked one last */
    this.kept = new Map();
  }

  /**
   * What the REST interface answers.
   * @param {string} path below /api
   * @returns {Promise<any>} undefined for what is not among the files
   */
  async answer(path) {
    const [route, search = ""] = path.split("?");
    const [, studies, id, kind, card] = route.split("/");
    if (studies !== "studies") return undefined;
    if (id === undefined) return this.site.listing;
    const study = decodeURIComponent(id);
    if (!(study in this.site.folders)) return undefined;
    const [query, contents] = [new URLSearchParams(search), await this.contentsOf(study)];
    const stem = stemOf(contents, query);
    if (!stem) return undefined;
    const read = (/** @type {string} */ name) => this.document(study, name);
    if (kind === "view") return viewOf(read, stem, query);
    return kind === "tables" ? tableOf(read, stem, query, card) : undefined;
  }

  /**
   * Whether there is an answer, as far as that is known: the contents of another study are read when it is chosen.
   * @param {string} path of a view below /api
   */
  holds(path) {
    const [route, search = ""] = path.split("?");
    const contents = this.contents[decodeURIComponent(route.split("/")[2])];
    return !contents || stemOf(contents, new URLSearchParams(search)) !== null;
  }

  /**
   * Bytes of a study's array.
   * @param {string} study
   * @param {{file: string, offset: number}} info
   */
  bytes(study, { file, offset }) {
    return this.unpacked(`${this.site.folders[study]}arrays/${file.split("/").pop()}-${offset}.gz`);
  }

  /** Addresses of a study's own files. @param {string} study */
  filesOf(study) {
    return (this.contents[study]?.files ?? []).map((name) => ({ name, address: this.site.folders[study] + name }));
  }

  /** @param {string} study @returns {Promise<Contents>} */
  async contentsOf(study) {
    this.contents[study] ??= await this.document(study, "contents");
    return this.contents[study];
  }

  /** A document among the files of a study. @param {string} study @param {string} name */
  document(study, name) {
    const address = `${this.site.folders[study]}${name}.json.gz`;
    const known = this.kept.get(address);
    const asked = known ?? this.unpacked(address).then((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
    if (!known) asked.catch(() => this.kept.delete(address)); // reported where it is awaited
    this.kept.delete(address);
    this.kept.set(address, asked);
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value ?? "");
    return asked;
  }

  /** Some servers name the packing of a file to the browser, which then unpacks it. @param {string} address */
  async unpacked(address) {
    const bytes = await this.fetched(address);
    const [first, second] = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength));
    if (first !== PACKED[0] || second !== PACKED[1]) return bytes;
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  }
}

/**
 * Which files an address of a view or a table means; null where there are none.
 * @param {Contents} contents
 * @param {URLSearchParams} query
 * @returns {Stem|null}
 */
function stemOf({ lines, choices, is_one_layer }, query) {
  const number = lines[`${query.get("method") ?? ""}|${query.get("bits") ?? ""}`];
  if (number === undefined) return null;
  const { bits, layers, draws } = choices[number];
  const layer = is_one_layer ? null : positionOf(query.get("layer"));
  const draw = positionOf(query.get("draw"));
  const isThere =
    (layer === null || (draw === null && layers.includes(layer))) && (draw === null || draws.includes(draw));
  const end = draw === null ? "" : `-draw-${draw}`;
  const line = `${number}${end}`;
  return isThere ? { name: layer === null ? line : `${number}-layer-${layer}`, line, width: `${bits}${end}` } : null;
}

/** @param {string|null} text */
const positionOf = (text) => (!text || text === "all" ? null : Number(text));

/** @typedef {(name: string) => Promise<any>} Read */

/** @param {Read} read @param {Stem} stem @param {URLSearchParams} query */
async function viewOf(read, stem, query) {
  let view = await read(`views/${stem.name}`);
  const quantity = query.get("quantity");
  if (quantity && quantity !== view.quantity) {
    const part = (await read(`quantities/${stem.name}`))[quantity];
    if (part) view = joined(view, part); // a line that has no such is shown as it is
  }
  const steps = query.get("steps");
  if (!steps || !view.ladder || steps === orderOf(view.ladder)) return view;
  const { orders } = await read(`ladders/${stem.width}`);
  if (!orders[steps]) return undefined;
  const { ladder, figure } = orders[steps];
  return joined(view, { ladder, figures: { ladder: figure } });
}

/** @param {{steps: {name: string}[]}} ladder */
const orderOf = ({ steps }) => steps.map(({ name }) => name).join();

/** A view with a part of it replaced. @param {any} view @param {any} part */
const joined = (view, { figures, ...rest }) => ({ ...view, ...rest, figures: { ...view.figures, ...figures } });

/** @param {Read} read @param {Stem} stem @param {URLSearchParams} query @param {string} card */
async function tableOf(read, stem, query, card) {
  const whole = await wholeTable(read, stem, query.get("steps") ?? "", card);
  if (!whole) return undefined;
  const from = Number(query.get("offset") ?? 0);
  const limit = query.get("limit");
  return { ...whole, rows: whole.rows.slice(from, limit === null ? undefined : from + Number(limit)) };
}

/** @param {Read} read @param {Stem} stem @param {string} steps @param {string} card */
async function wholeTable(read, { name, line, width }, steps, card) {
  if (card === "methods") return read(`methods/${width}`);
  if (card === "map") return read(`maps/${line}`);
  if (card !== "ladder") return (await read(`tables/${name}`))[card];
  const { table, orders } = await read(`ladders/${width}`);
  return orders[steps]?.table ?? table;
}

/** @param {string} address */
async function fetched(address) {
  const response = await fetch(new URL(address, document.baseURI));
  if (!response.ok)
    throw new Error(`${address}, a file of this site, can’t be read: the server answered ${response.status}.`);
  return response.arrayBuffer();
}

const element = globalThis.document?.querySelector?.("#published");

/** The files that this page is shown from; null where a server answers. */
export const published = element ? new Published(JSON.parse(element.textContent ?? ""), fetched) : null;
