// @ts-check
// JSON Schema for people: resolved references, choices, first values and short names of types.

/** @typedef {Record<string, any>} Schema */
/** @typedef {{ label: string, schema: Schema }} Choice */

const MAX_REFS = 32;

/**
 * Returns a schema without a reference or `allOf` at its root. References are within the document only.
 * @param {unknown} schema
 * @param {Schema} root
 * @param {number} [depth]
 * @returns {Schema}
 */
export function resolve(schema, root, depth = 0) {
  if (schema === null || typeof schema !== "object" || Array.isArray(schema)) return {};
  const given = /** @type {Schema} */ (schema);
  if (depth > MAX_REFS) return {};
  if (typeof given.$ref === "string") {
    const { $ref, ...rest } = given;
    return resolve(merge(resolve(lookUp($ref, root), root, depth + 1), rest), root, depth + 1);
  }
  if (!Array.isArray(given.allOf)) return given;
  const { allOf, ...rest } = given;
  return allOf.reduce((whole, part) => merge(whole, resolve(part, root, depth + 1)), rest);
}

/**
 * @param {string} ref
 * @param {Schema} root
 */
function lookUp(ref, root) {
  if (ref === "#") return root;
  if (!ref.startsWith("#/")) return findAnchor(root, ref.slice(1), 0) ?? {};
  /** @type {any} */ let at = root;
  for (const step of decodeURIComponent(ref.slice(2)).split("/")) at = at?.[step.replace(/~1/g, "/").replace(/~0/g, "~")];
  return at ?? {};
}

/** @type {(value: any, anchor: string, depth: number) => Schema | undefined} */
function findAnchor(value, anchor, depth) {
  if (value === null || typeof value !== "object" || depth > 8) return undefined;
  if (value.$anchor === anchor) return value;
  for (const member of Object.values(value)) {
    const found = findAnchor(member, anchor, depth + 1);
    if (found) return found;
  }
  return undefined;
}

/** @type {(a: Schema, b: Schema) => Schema} */
function merge(a, b) {
  const merged = { ...a, ...b };
  if (a.properties && b.properties) merged.properties = { ...a.properties, ...b.properties };
  if (a.required && b.required) merged.required = [...new Set([...a.required, ...b.required])];
  return merged;
}

/** @param {Schema} schema */
export function typesOf(schema) {
  if (Array.isArray(schema.type)) return schema.type;
  if (typeof schema.type === "string") return [schema.type];
  if (schema.properties || schema.additionalProperties) return ["object"];
  return schema.items || schema.prefixItems ? ["array"] : [];
}

/**
 * Returns the alternatives of a schema: branches of `anyOf` and `oneOf`, or several types. A single one is no choice.
 * @param {Schema} schema
 * @param {Schema} root
 * @returns {Choice[]}
 */
export function choicesOf(schema, root) {
  const branches = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(branches)) {
    const { anyOf, oneOf, default: _, ...rest } = schema;
    return branches.map((branch) => {
      const resolved = merge(rest, resolve(branch, root));
      return { label: branchLabel(resolved, root), schema: resolved };
    });
  }
  const types = typesOf(schema);
  if (types.length < 2 || schema.enum) return [];
  return types.map((type) => ({ label: type, schema: { ...schema, type } }));
}

/** @type {(schema: Schema, root: Schema) => string} */
function branchLabel(schema, root) {
  if (typeof schema.title === "string") return schema.title;
  const kind = Object.entries(schema.properties ?? {}).find(([, member]) => resolve(member, root).const !== undefined);
  return kind ? `${kind[0]}: ${JSON.stringify(resolve(kind[1], root).const)}` : typeLabel(schema, root);
}

/**
 * Returns the type of a schema as a short text, such as `array of string` or `"C" | "F"`.
 * @param {Schema} schema
 * @param {Schema} root
 * @param {number} [depth]
 * @returns {string}
 */
export function typeLabel(schema, root, depth = 0) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) {
    const shown = schema.enum.slice(0, 6).map((value) => JSON.stringify(value)).join(" | ");
    return schema.enum.length > 6 ? `${shown} | …` : shown;
  }
  const types = typesOf(schema);
  if (types.length === 1 && types[0] === "array" && schema.items && depth < 3) return `array of ${typeLabel(resolve(schema.items, root), root, depth + 1)}`;
  if (types.length) return types.join(" or ");
  const branches = schema.anyOf ?? schema.oneOf;
  if (!Array.isArray(branches) || depth > 2) return "any";
  return [...new Set(branches.map((branch) => typeLabel(resolve(branch, root), root, depth + 1)))].join(" or ");
}

/**
 * Returns the rules of a schema as short texts.
 * @param {Schema} schema
 * @returns {string[]}
 */
export function rulesOf(schema) {
  const rules = [];
  const range = (/** @type {string} */ low, /** @type {string} */ high, /** @type {string} */ unit) => {
    const units = (/** @type {number} */ value) => `${value}${unit && ` ${unit}${value === 1 ? "" : "s"}`}`;
    if (schema[low] !== undefined && schema[high] !== undefined) rules.push(`${schema[low]} to ${units(schema[high])}`);
    else if (schema[low] !== undefined) rules.push(`at least ${units(schema[low])}`);
    else if (schema[high] !== undefined) rules.push(`at most ${units(schema[high])}`);
  };
  range("minimum", "maximum", "");
  range("minLength", "maxLength", "character");
  range("minItems", "maxItems", "item");
  if (schema.exclusiveMinimum !== undefined) rules.push(`more than ${schema.exclusiveMinimum}`);
  if (schema.exclusiveMaximum !== undefined) rules.push(`less than ${schema.exclusiveMaximum}`);
  if (schema.multipleOf !== undefined) rules.push(`multiple of ${schema.multipleOf}`);
  if (schema.format) rules.push(`format ${schema.format}`);
  if (schema.pattern) rules.push(`pattern ${schema.pattern}`);
  if (schema.uniqueItems) rules.push("unique items");
  if (schema.default !== undefined) rules.push(`default ${JSON.stringify(schema.default)}`);
  return rules;
}

/**
 * Returns a first value for a form: defaults, constants, and required members.
 * @param {unknown} schema
 * @param {Schema} root
 * @param {number} [depth]
 * @returns {any}
 */
export function firstValue(schema, root, depth = 0) {
  const resolved = resolve(schema, root);
  if (resolved.default !== undefined) return resolved.default;
  if (resolved.const !== undefined) return resolved.const;
  if (Array.isArray(resolved.enum)) return resolved.enum[0];
  const choices = choicesOf(resolved, root);
  if (choices.length && depth < 8) return firstValue(choices[0].schema, root, depth + 1);
  switch (typesOf(resolved)[0]) {
    case "object": {
      /** @type {Record<string, unknown>} */
      const value = {};
      if (depth > 8) return value;
      for (const name of resolved.required ?? []) value[name] = firstValue(resolved.properties?.[name], root, depth + 1);
      return value;
    }
    case "array": return [];
    case "boolean": return false;
    case "integer": case "number": return resolved.minimum ?? 0;
    case "null": return null;
    default: return "";
  }
}

/**
 * Returns the index of the first choice that a value fits by its type and constants.
 * @param {Choice[]} choices
 * @param {unknown} value
 * @param {Schema} root
 */
export function choiceOf(choices, value, root) {
  const index = choices.findIndex(({ schema }) => fits(schema, value, root));
  return index < 0 ? 0 : index;
}

/** @type {(schema: Schema, value: any, root: Schema) => boolean} */
function fits(schema, value, root) {
  if (schema.const !== undefined) return JSON.stringify(schema.const) === JSON.stringify(value);
  if (Array.isArray(schema.enum)) return schema.enum.some((one) => JSON.stringify(one) === JSON.stringify(value));
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value === "bigint" ? "integer" : typeof value;
  const types = typesOf(schema);
  if (types.length && !types.includes(type) && !(type === "number" && types.includes("integer") && Number.isInteger(value)) && !(type === "integer" && types.includes("number"))) return false;
  if (type !== "object") return true;
  const members = schema.properties ?? {};
  if ((schema.required ?? []).some((/** @type {string} */ name) => !Object.hasOwn(value, name))) return false;
  return Object.entries(members).every(([name, member]) => {
    const { const: constant } = resolve(member, root);
    return constant === undefined || JSON.stringify(value[name]) === JSON.stringify(constant);
  });
}
