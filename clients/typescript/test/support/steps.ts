import { httpApp, tool, type Toolpost } from "toolpost";
import { listen } from "toolpost/node";
import { after } from "node:test";
import { Queue } from "./queue.js";
import { SECRET } from "./service.js";

/** The tool `steps`: it reports one step, and ends when the test has seen it. */
export class Steps {
  readonly #seen = new Queue<boolean>();

  /** Creates the tool for a test file, which calls this outside of its tests. */
  constructor() {
    const steps = tool({
      name: "steps",
      input: { type: "object" },
      run: async (_, run) => {
        await run.progress(1, 2);
        await this.#seen.next();
        return "two steps";
      },
    });
    const app = httpApp({ tools: [steps], signingSecret: SECRET });
    const listening = listen(app);
    after(async () => (await listening).close());
    this.register = async (client) => {
      const { url } = await listening;
      for (const definition of app.definitions(url)) await client.register(definition);
    };
  }

  readonly register: (client: Toolpost) => Promise<void>;

  /** Returns whether a state has the step, and lets the tool end then. */
  see(state: object | undefined): boolean {
    const isStep = (state as { progress?: { current?: number } } | undefined)?.progress?.current === 1;
    if (isStep) this.#seen.push(true);
    return isStep;
  }
}
