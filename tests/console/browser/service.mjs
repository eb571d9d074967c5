// A service of the test's own, which it can stop and start again. TOOLPOST_BIN is the program.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A service whose database is a file in a folder of its own. */
export class Service {
  #process;

  /** Starts the service on a free port. */
  static async start(...flags) {
    assert.ok(process.env.TOOLPOST_BIN, "TOOLPOST_BIN is missing: set it to the path of the program toolpost");
    const service = new Service();
    service.folder = await mkdtemp(join(tmpdir(), "toolpost-console-"));
    service.flags = flags;
    try {
      await service.restart();
    } catch (error) {
      await service.remove();
      throw error;
    }
    return service;
  }

  get base() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts the service again, on the port that it had unless another one is given. */
  async restart(port = this.port ?? 0) {
    const { PATH, TMPDIR } = process.env;
    const args = ["serve", "--listen", `127.0.0.1:${port}`, "--database-url", `sqlite://${join(this.folder, "toolpost.db")}`, ...this.flags];
    this.#process = spawn(process.env.TOOLPOST_BIN, args, { env: { PATH, HOME: this.folder, ...(TMPDIR ? { TMPDIR } : {}) }, stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    this.#process.stderr.on("data", (text) => (log = (log + text).slice(-10_000)));
    const lines = createInterface({ input: this.#process.stdout });
    const listening = new Promise((resolve, reject) => {
      lines.on("line", (line) => {
        const found = /listening on http:\/\/[^:]+:(\d+)/.exec(line);
        if (found) resolve(Number(found[1]));
      });
      this.#process.on("error", reject);
      this.#process.on("exit", (code, signal) => reject(new Error(`the service ended with ${code ?? signal} before it listened:\n${log}`)));
    });
    const bound = await listening;
    this.port ??= bound;
    return `http://127.0.0.1:${bound}`;
  }

  /** Ends the service and waits until it is gone. */
  async stop(signal = "SIGTERM") {
    const { exitCode, signalCode } = this.#process;
    if (exitCode !== null || signalCode !== null) return;
    const exited = once(this.#process, "exit");
    this.#process.kill(signal);
    await exited;
  }

  /** Ends the service and deletes its data. */
  async remove() {
    if (this.#process?.pid) await this.stop("SIGKILL");
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** The flags of a service that gets many calls at once. */
export const LARGE = ["--config", fileURLToPath(new URL("large.toml", import.meta.url))];

/** Runs a test body with a service of its own. */
export async function withService(flags, body) {
  const service = await Service.start(...flags);
  try {
    await body(service);
  } finally {
    await service.remove();
  }
}
