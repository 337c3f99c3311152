/**
 * Choosing a layer: one list for a dense model; for a mixture, which may have thousands of layers, a block and then a
 * layer of it, grouped by expert. Both are ordinary lists, so typing finds an entry. Pure.
 * @module layer_choice
 */

/** The layer at a position in the model, if it is among those that the view has. */
export const layerAt = (view, index) => view.layers.find((layer) => layer.index === index);

/**
 * What the two lists offer.
 * @param {{layers: Array<{index: number, label: string, expert: number|null}>, layer: number|null, blocks: number[][]|null}} view
 *   `layers` of a mixture are those of the shown block; `blocks` are [block, its first layer], null for a dense model
 * @returns {{blocks: Array|null, block: string, groups: Array<{title: string|null, options: Array}>, layer: string}} options are
 *   [value, text]; `blocks` is null for a dense model, whose layers stand in one group
 */
export function layerChoice({ layers, layer: chosen, blocks }) {
  const all = ["all", "all layers"];
  const layer = chosen === null ? "all" : String(chosen);
  if (!blocks) {
    return {
      blocks: null,
      block: "all",
      groups: [{ title: null, options: [all, ...layers.map((one) => [one.index, one.label])] }],
      layer,
    };
  }
  const offered = [all, ...blocks.map(([block, first]) => [first, `block ${block}`])];
  if (chosen === null) return { blocks: offered, block: "all", groups: [], layer };
  const groups = new Map();
  for (const one of layers) {
    const title = one.expert === null ? `block ${one.block}` : `expert ${one.expert}`;
    if (!groups.has(title)) groups.set(title, []);
    groups.get(title).push([one.index, one.label.split(" · ").slice(1).join(" · ")]);
  }
  const here = layers[0].block;
  return {
    blocks: offered,
    block: String(blocks.find(([block]) => block === here)[1]),
    groups: [...groups].map(([title, options]) => ({ title, options })),
    layer,
  };
}
