import assert from "node:assert/strict";
import { test } from "node:test";
import { serve, tool } from "toolpost";
import { z } from "zod";

/** Compiles only if both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : never;

test("a zod type gives the schema of the arguments and their type", () => {
  const definition = tool({
    name: "forecast",
    description: "The weather of the next days.",
    input: z.object({ city: z.string().describe("A city."), days: z.number().int().min(1).max(7).default(3) }),
    output: z.object({ celsius: z.number() }),
    run: (args) => {
      const same: Same<typeof args, { city: string; days: number }> = true;
      return same;
    },
  }).definition;
  assert.equal(definition.name, "forecast");
  const schema = definition.input_schema as any;
  assert.equal(schema.properties.city.description, "A city.");
  assert.equal(schema.properties.days.maximum, 7);
  // A property with a default may be left out.
  assert.deepEqual(schema.required, ["city"]);
  assert.deepEqual((definition.output_schema as any).required, ["celsius"]);
});

test("a JSON Schema gives the type of the arguments", () => {
  const definition = tool({
    name: "order",
    input: {
      type: "object",
      properties: { kind: { enum: ["book", "film"] }, tags: { type: "array", items: { type: "string" } }, rest: {} },
      required: ["kind"],
    },
    run: (args) => {
      const same: Same<typeof args, { kind: "book" | "film"; tags?: string[]; rest?: any }> = true;
      return same;
    },
    annotations: { read_only: true },
  }).definition;
  assert.deepEqual((definition.input_schema as any).required, ["kind"]);
  assert.deepEqual(definition.annotations, { read_only: true });
  assert.ok(!("run" in definition) && !("input" in definition));
});

test("invalid declarations are refused with the way out", () => {
  const input = { type: "object" };
  const run = () => {};
  assert.throws(() => tool({ name: "no spaces", input, run }), /name: "no spaces" is not a name of a tool; use/);
  const old = { "~standard": { version: 1, vendor: "old", validate: () => ({ value: 1 }) } } as const;
  assert.throws(() => tool({ name: "t", input: old, run }), /t\.input: this version of old does not offer JSON Schema/);
  const twice = [tool({ name: "t", input, run }), tool({ name: "t", input, run })];
  assert.throws(() => serve("http://127.0.0.1:1", { queue: "q", tools: twice }), /tools: "t" is declared twice/);
  assert.throws(() => serve("http://127.0.0.1:1", { queue: "q", tools: [] }), /at least one tool/);
});
