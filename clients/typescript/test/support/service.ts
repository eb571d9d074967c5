/** Services of the tests: the real program, which TOOLPOST_BIN names. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Toolpost } from "toolpost";

/** The root of the package. */
export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
export const BIN = process.env["TOOLPOST_BIN"] ?? fileURLToPath(new URL("../../../../target/debug/toolpost", import.meta.url));
export const SECRET = "whsec_dG9vbHBvc3QgdHlwZXNjcmlwdCB0ZXN0cyBrZXk=";

/** A running service. */
export class Service {
  readonly url: string;
  readonly client: Toolpost;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.client = new Toolpost(url);
    this.#child = child;
  }

  /** Starts a service that ends with the process of the test file. */
  static async start(variables: Record<string, string> = {}): Promise<Service> {
    const options = ["--listen", "127.0.0.1:0", "--database-url", "sqlite::memory:", "--egress-allow", "127.0.0.1"];
    const env = { ...process.env, TOOLPOST_SIGNING_SECRET: SECRET, ...variables };
    const child = spawn(BIN, ["serve", ...options], { env, stdio: ["ignore", "pipe", "ignore"] });
    process.once("exit", () => child.kill("SIGKILL"));
    for await (const line of createInterface(child.stdout)) {
      const found = /listening on (http:\S+)/.exec(line);
      if (!found) continue;
      // The test file ends without waiting for the service.
      child.stdout.destroy();
      child.unref();
      return new Service(found[1]!, child);
    }
    throw new Error(`${BIN} did not start`);
  }

  /** Creates an API key. From the first key on, the service requires keys. */
  async key(key: object, apiKey?: string): Promise<string> {
    const headers = new Headers({ "content-type": "application/json" });
    if (apiKey) headers.set("authorization", `Bearer ${apiKey}`);
    const response = await fetch(`${this.url}/keys`, { method: "POST", headers, body: JSON.stringify(key) });
    const made = (await response.json()) as { key: string };
    if (!response.ok) throw new Error(JSON.stringify(made));
    return made.key;
  }

  /** Registers a tool with the code of a built-in one. */
  async builtin(name: string, builtin: string, more: object = {}): Promise<void> {
    await this.client.register({ name, executor: { type: "builtin", name: builtin }, ...more });
  }

  /** Kills the service, and returns when it has ended. */
  async kill(): Promise<void> {
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}
