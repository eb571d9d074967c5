// The text of a file of the console as the service sends it. `build.rs` does the same; a browser test compares both.

const COMMENTS = /\/\*\*[\s\S]*?\*\/ ?/g;
const PARTS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\s+|[\s\S]/y;
const REGEXP = /\/(?:[^/\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+\//y;
const TEMPLATE = /`|\$\{|(?:\\[\s\S]|[^`\\$]|\$(?!\{))+/y;

/** Returns whether the code has another meaning without the white space. */
function isNeeded(space, before, after) {
  if (space.includes("\n")) return !(";{,(=>[:?&|".includes(before) || "}),.?:;]&|".includes(after));
  return ![before, after].some((one) => "=(){}[];,<>?:&|!*".includes(one));
}

/** Removes blanks and line breaks next to punctuation of a module. Strings, templates and regular expressions stay. */
function withoutBlanks(code) {
  let sent = "";
  const open = [];
  for (let at = 0; at < code.length; ) {
    const isText = open.at(-1) === "`";
    const isRegexp = code[at] === "/" && (!/[\w$)\]]\s*$/.test(sent) || /return\s*$/.test(sent));
    const kind = isText ? TEMPLATE : isRegexp ? REGEXP : PARTS;
    kind.lastIndex = at;
    const [part] = kind.exec(code);
    at = kind.lastIndex;
    if (isText ? part === "`" : part === "}") open.pop();
    else if (part === "`" || part === "${" || (!isText && part === "{")) open.push(part.at(-1));
    if (isText || part.trim()) sent += part;
    else if (isNeeded(part, sent.at(-1) ?? ";", code[at] ?? ";")) sent += part.includes("\n") ? "\n" : " ";
  }
  return sent;
}

/** Returns the text that the service sends for a file. */
export function sentText(file, text) {
  if (file.endsWith(".css")) return text.replace(/\/\*[\s\S]*?\*\/ ?/g, "").trim().replace(/\s+/g, " ").replace(/ ?([{};,>]) ?/g, "$1").replaceAll(": ", ":").replaceAll(";}", "}");
  if (!file.endsWith(".js")) return text;
  const code = text.replace(COMMENTS, "").split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("//"));
  return withoutBlanks(`${code.join("\n")}\n`);
}
