// Starts the browser that all tests of the console share, and prints its address. It ends with the input of this program.
import { chromium } from "playwright-core";
import { CHROMIUM } from "./browser/support.mjs";

const server = await chromium.launchServer(CHROMIUM);
console.log(server.wsEndpoint());
process.stdin.resume().on("close", () => server.close());
