/** Waits, and returns early if the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}

/** Waits that double up to a maximum, with jitter, so that clients do not return at the same moment. */
export class Backoff {
  readonly #first: number;
  readonly #max: number;
  #next: number;

  constructor(firstMs: number, maxMs: number) {
    this.#first = firstMs;
    this.#max = maxMs;
    this.#next = firstMs;
  }

  /** Starts with the shortest wait again, after a success. */
  reset(): void {
    this.#next = this.#first;
  }

  /** Returns the next wait in milliseconds, at least `leastMs`. */
  next(leastMs = 0): number {
    const wait = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(this.#next * 2, this.#max);
    return Math.max(wait, leastMs);
  }
}
