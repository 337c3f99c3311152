/**
 * Between the form and the recipe, and the ways to take a recipe elsewhere. Pure.
 * @module recipe
 */

/**
 * The recipe that a form says: empty fields are left out, lists are split, what the method does not tune is dropped.
 * @param {Array<[string, string, string]>} fields [field, public name, kind]
 * @param {any[]} values in the order of the fields
 * @param {Object<string, string[]>} tunes which of lam and gamma a method has
 */
export function recipeOf(fields, values, tunes) {
  const recipe = {};
  const method = values[fields.findIndex(([name]) => name === "method")];
  fields.forEach(([name, key, kind], index) => {
    const value = values[index];
    if (value === null || value === undefined || value === "" || Number.isNaN(value)) return;
    if ((name === "lam" || name === "gamma") && tunes[method] && !tunes[method].includes(name)) return;
    recipe[key] = read(value, kind);
  });
  return recipe;
}

function read(value, kind) {
  if (kind === "list") {
    const parts = Array.isArray(value) ? value : String(value).split(",");
    return parts.map((part) => (typeof part === "string" ? part.trim() : part)).filter((part) => part !== "");
  }
  if ((kind === "whole" || kind === "number") && typeof value === "string") {
    const number = Number(value);
    return Number.isFinite(number) && value.trim() !== "" ? number : value;
  }
  return value;
}

/**
 * Form values for a recipe; fields that it does not name take the form's own defaults.
 * @param {Array<[string, string, string]>} fields
 * @param {object} recipe
 * @param {Object<string, any>} defaults by field
 */
export function valuesOf(fields, recipe, defaults) {
  return fields.map(([name, key, kind]) => {
    const value = recipe[key] !== undefined ? recipe[key] : defaults[name];
    if (kind === "list") return Array.isArray(value) ? value.join(", ") : (value ?? "");
    if (name === "group_size") return value === null ? "per_channel" : value === undefined ? undefined : String(value);
    if (value === undefined || value === null) return kind === "text" ? "" : null;
    return value;
  });
}

/** A recipe without the fields that are at their defaults, so that what is copied shows what was chosen. */
export function chosenOnly(recipe, defaults) {
  return Object.fromEntries(
    Object.entries(recipe).filter(
      ([key, value]) => value !== null && value !== undefined && JSON.stringify(value) !== JSON.stringify(defaults[key] ?? null),
    ),
  );
}

/** One line for headings and tables: model, bits, method and its numbers. */
export function describe(recipe) {
  const parts = [shortModel(recipe.model), `${recipe.bits} bits`, recipe.method];
  if (recipe.lambda !== null && recipe.lambda !== undefined) parts.push(`λ = ${recipe.lambda}`);
  if (recipe.gamma !== null && recipe.gamma !== undefined) parts.push(`γ = ${recipe.gamma}`);
  return parts.filter(Boolean).join(", ");
}

/** The last part of a path or a Hub name. */
export function shortModel(name) {
  return String(name ?? "").split("/").filter(Boolean).pop() ?? "";
}

function scalar(value) {
  if (Array.isArray(value)) return `[${value.map(scalar).join(", ")}]`;
  if (typeof value !== "string") return String(value);
  return /^[A-Za-z_./][\w./-]*$/.test(value) && !/^(true|false|null|yes|no|on|off)$/i.test(value) ? value : JSON.stringify(value);
}

/** A YAML file that `python -m sarqc run` takes. */
export function asYaml(recipe) {
  return `${Object.entries(recipe)
    .map(([key, value]) => `${key}: ${scalar(value)}`)
    .join("\n")}\n`;
}

function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The same run from a shell. */
export function asCommand(recipe) {
  const flags = Object.entries(recipe).map(([key, value]) => {
    const flag = key.replaceAll("_", "-");
    if (value === true) return `--${flag}`;
    if (value === false) return `--no-${flag}`;
    return `--${flag} ${quoted(Array.isArray(value) ? value.join(",") : String(value))}`;
  });
  return ["python -m sarqc quantize", ...flags].join(" \\\n  ");
}

/** The same run over REST. */
export function asRequest(recipe, origin) {
  return [
    `curl -X POST ${origin}/api/runs`,
    "-H 'Content-Type: application/json'",
    `-d ${quoted(JSON.stringify(recipe))}`,
  ].join(" \\\n  ");
}

/** The same run from Python. */
export function asPython(recipe) {
  const literal = (value) => {
    if (value === true) return "True";
    if (value === false) return "False";
    if (value === null) return "None";
    if (Array.isArray(value)) return `(${value.map(literal).join(", ")}${value.length === 1 ? "," : ""})`;
    return JSON.stringify(value);
  };
  const fields = Object.entries(recipe).map(([key, value]) => `    ${JSON.stringify(key)}: ${literal(value)},`);
  return [
    "from sarqc import Recipe, execute",
    "from sarqc.settings import Settings",
    "",
    "recipe = Recipe.parse({",
    ...fields,
    "})",
    "for event in execute(recipe, Settings()):",
    "    print(event)",
    "",
  ].join("\n");
}
