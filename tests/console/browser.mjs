// Starts the browser that all tests of the console share, and prints its address. It ends with the input of this program.
import { chromium } from "playwright-core";

const server = await chromium.launchServer({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
console.log(server.wsEndpoint());
process.stdin.resume().on("close", () => server.close());
