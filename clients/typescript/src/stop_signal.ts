/** What this module uses of `process`, which browsers do not have. */
interface Process {
  once?(signal: string, listener: () => void): void;
  off?(signal: string, listener: () => void): void;
}

/** Calls a function on the first SIGINT or SIGTERM; the second one ends the program as usual. Returns how to stop that. */
export function onStopSignal(stop: () => void): () => void {
  const { process } = globalThis as { process?: Process };
  if (typeof process?.once !== "function" || typeof process.off !== "function") return () => {};
  const listener = () => {
    forget();
    stop();
  };
  const forget = () => {
    for (const signal of ["SIGINT", "SIGTERM"]) process.off?.(signal, listener);
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, listener);
  return forget;
}
