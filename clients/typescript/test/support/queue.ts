/** A channel between a tool and its test: the test waits for the event itself. */
export class Queue<Item> {
  readonly #items: Item[] = [];
  readonly #waiting: ((item: Item) => void)[] = [];

  push(item: Item): void {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(item);
    else this.#items.push(item);
  }

  next(): Promise<Item> {
    const item = this.#items.shift();
    if (item !== undefined) return Promise.resolve(item);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** Returns when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener("abort", () => resolve(signal.reason));
  });
}

/** Collects the items of an iterator. */
export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}
