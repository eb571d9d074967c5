// @ts-check
// A call as a program: curl, Python (standard library) and TypeScript.

/** @typedef {"curl" | "python" | "typescript"} Language */

/**
 * Returns the text of a program that makes a call.
 * @param {Language} language
 * @param {string} root The address of the service, with a slash at its end.
 * @param {{ name: string, arguments: unknown, session?: string | null }} call
 * @param {boolean} withKey Whether the service requires a key.
 */
export function snippet(language, root, { name, arguments: given, session }, withKey) {
  const body = JSON.stringify({ name, arguments: given, ...(session ? { session } : {}) }, null, 2);
  return { curl, python, typescript }[language](`${root}tool-calls`, body, withKey);
}

/** @type {(url: string, body: string, withKey: boolean) => string} */
function curl(url, body, withKey) {
  const key = withKey ? ' \\\n  -H "authorization: Bearer $TOOLPOST_KEY"' : "";
  return `curl ${quoted(url)}${key} \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(body)}`;
}

/**
 * Quotes a text for a POSIX shell.
 * @param {string} text
 */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** @type {(url: string, body: string, withKey: boolean) => string} */
function python(url, body, withKey) {
  const key = withKey ? '\n        "authorization": f"Bearer {os.environ[\'TOOLPOST_KEY\']}",' : "";
  return [
    `import json${withKey ? "\nimport os" : ""}`,
    "import urllib.request\n",
    `body = json.loads(${JSON.stringify(body.replace(/\n\s*/g, " "))})`,
    "request = urllib.request.Request(",
    `    ${JSON.stringify(url)},`,
    "    data=json.dumps(body).encode(),",
    "    headers={",
    `        "content-type": "application/json",${key}`,
    "    },",
    ")",
    "with urllib.request.urlopen(request) as response:",
    "    call = json.load(response)",
    'print(call["status"], call["output"])\n',
  ].join("\n");
}

/** @type {(url: string, body: string, withKey: boolean) => string} */
function typescript(url, body, withKey) {
  const key = withKey ? "\n    authorization: `Bearer ${process.env.TOOLPOST_KEY}`," : "";
  // A number in a program is rounded; a text is not.
  const sent = /\d{16}/.test(body) ? JSON.stringify(body.replace(/\n\s*/g, " ")) : `JSON.stringify(${body.replaceAll("\n", "\n  ")})`;
  return [
    `const response = await fetch(${JSON.stringify(url)}, {`,
    '  method: "POST",',
    "  headers: {",
    `    "content-type": "application/json",${key}`,
    "  },",
    `  body: ${sent},`,
    "});",
    "if (!response.ok) throw new Error(await response.text());",
    "const call = await response.json();",
    "console.log(call.status, call.output);\n",
  ].join("\n");
}
