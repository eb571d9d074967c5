/** Schemas of arguments: JSON Schema, or a Standard Schema (zod, valibot, arktype) that can tell its JSON Schema. */
import type { JsonObject } from "./types.js";

/** A Standard Schema with JSON Schema (https://standardschema.dev). */
export interface StandardSchema<Input = any, Output = any> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly jsonSchema?: { readonly input: (options: { target: any }) => Record<string, unknown> };
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type StandardResult<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] };
interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A JSON Schema. */
export type JsonSchema = { readonly [keyword: string]: unknown };
/** A schema of arguments. */
export type Schema = StandardSchema | JsonSchema;

/** The type of valid arguments. */
export type Arguments<Input> =
  Input extends StandardSchema<any, infer Output> ? Output : Input extends JsonSchema ? OfObject<Input> : never;

type OfObject<Root> = Root extends { readonly properties: object } ? OfSchema<Root> : Record<string, any>;

/** The type of a literal JSON Schema, as far as TypeScript can derive it; `any` otherwise. */
type OfSchema<S> = S extends { readonly const: infer Value } ? Value
  : S extends { readonly enum: readonly (infer Value)[] } ? Value
  : S extends { readonly type: "string" } ? string
  : S extends { readonly type: "number" | "integer" } ? number
  : S extends { readonly type: "boolean" } ? boolean
  : S extends { readonly type: "null" } ? null
  : S extends { readonly type: "array"; readonly items: infer Items } ? OfSchema<Items>[]
  : S extends { readonly properties: infer Properties } ? Members<Properties, RequiredOf<S>>
  : any;

type RequiredOf<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never;
type Members<Properties, Required> = Flat<
  & { -readonly [Name in keyof Properties as Name extends Required ? Name : never]: OfSchema<Properties[Name]> }
  & { -readonly [Name in keyof Properties as Name extends Required ? never : Name]?: OfSchema<Properties[Name]> }
>;
type Flat<Type> = { [Name in keyof Type]: Type[Name] };

function isStandard(schema: Schema): schema is StandardSchema {
  return "~standard" in schema;
}

/** Returns the JSON Schema of a schema. Throws if the library does not offer it. */
export function jsonSchemaOf(tool: string, member: string, schema: Schema): JsonObject {
  if (!isStandard(schema)) return schema as JsonObject;
  const standard = schema["~standard"];
  if (!standard.jsonSchema) {
    throw new TypeError(
      `${tool}.${member}: this version of ${standard.vendor} does not offer JSON Schema ("~standard".jsonSchema); ` +
        "use zod 4.2 or later, or give a JSON Schema",
    );
  }
  return standard.jsonSchema.input({ target: "draft-2020-12" });
}

/** Returns the valid arguments. Throws with all violations. */
export async function validated(schema: Schema, value: unknown): Promise<unknown> {
  if (!isStandard(schema)) return value; // the service has validated it
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return result.value;
  const lines = result.issues.map((issue) => {
    const keys = (issue.path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    return `- ${keys.map((key) => `/${String(key)}`).join("")}: ${issue.message}`;
  });
  throw new Error(`invalid arguments\n${lines.join("\n")}`);
}
