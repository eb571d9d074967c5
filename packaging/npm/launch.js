#!/usr/bin/env node
"use strict";
// Runs the program `toolpost` of this package: same arguments, same input and output, and it ends with the same exit code.
const { spawn } = require("node:child_process");
const { join } = require("node:path");

// A terminal sends Ctrl-C to all its programs, and npm may pass the signal on again. The service reads a second signal as
// "exit immediately". It therefore runs in a session of its own, and gets the first of equal signals in quick succession.
const REPEAT_MS = 500;
const PARENT_CHECK_MS = 250;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
const forwarded = new Map();
let child;

function forward(signal) {
  if (performance.now() - (forwarded.get(signal) ?? -Infinity) < REPEAT_MS) return;
  forwarded.set(signal, performance.now());
  child.kill(signal);
}

for (const signal of SIGNALS) process.on(signal, forward);

// npm starts this script in a shell. A signal to npm ends the shell, and some shells do not pass it on.
if (process.env.npm_command !== undefined) {
  const shell = process.ppid;
  const check = () => {
    if (process.ppid !== shell && forwarded.size === 0) forward("SIGTERM");
  };
  setInterval(check, PARENT_CHECK_MS).unref();
}

const program = join(__dirname, "toolpost");
child = spawn(program, process.argv.slice(2), { stdio: "inherit", detached: true });
child.on("error", (error) => {
  console.error(`toolpost-server: cannot run ${program}: ${error.message}`);
  process.exitCode = 126;
});
child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exitCode = code;
  } else {
    for (const name of SIGNALS) process.removeAllListeners(name);
    process.kill(process.pid, signal);
  }
});
