//! Requests that the fast path answers, and requests that it leaves to rmcp.

use serde_json::{Value, json};

use crate::mcp::MODERN;

/// A `POST` of the protocol.
#[derive(Clone)]
pub struct Case {
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
        write!(formatter, "{headers:?} {:.400}", String::from_utf8_lossy(&self.body))
    }
}

impl Case {
    /// Creates a request without a version. `params` is JSON.
    pub fn legacy(method: &str, params: &str) -> Self {
        Self::raw(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#))
    }

    /// Creates a request with the headers of the revision that the body names.
    pub fn with_body(body: &[u8]) -> Self {
        let is_modern = body.windows(MODERN.len()).any(|word| word == MODERN.as_bytes());
        let case = if is_modern { modern_echo() } else { echo() };
        Self { body: body.into(), ..case }
    }

    /// Creates a request of 2026-07-28.
    fn modern(method: &str, params: &Value) -> Self {
        let mut params = params.clone();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let own = params.as_object_mut().unwrap().remove("_meta").unwrap_or(json!({}));
        let mut meta = meta.as_object().unwrap().clone();
        meta.extend(own.as_object().unwrap().clone());
        meta.retain(|_, value| !value.is_null());
        params["_meta"] = Value::Object(meta);
        let case = Self::legacy(method, &params.to_string()).with("mcp-protocol-version", MODERN);
        let case = case.with("mcp-method", method);
        match params["name"].as_str() {
            Some(name) => case.with("mcp-name", name),
            None => case,
        }
    }

    fn raw(body: &str) -> Self {
        let headers = [
            ("host", "127.0.0.1:8080"),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ];
        Self { headers: headers.map(|(name, value)| (name, value.into())).to_vec(), body: body.into() }
    }

    /// Sets a header.
    fn with(self, name: &'static str, value: &str) -> Self {
        self.without(name).and(name, value)
    }

    /// Adds a header.
    fn and(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| *own != name);
        self
    }
}

const ECHO: &str = r#"{"name":"echo","arguments":{"a":1}}"#;

fn echo() -> Case {
    Case::legacy("tools/call", ECHO)
}

fn modern_echo() -> Case {
    Case::modern("tools/call", &json!({"name": "echo", "arguments": {"a": 1}}))
}

/// Returns a call with this text as its id.
fn with_id(id: &str) -> Case {
    Case::raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{ECHO}}}"#))
}

fn with_meta(meta: &Value) -> Case {
    Case::modern("tools/call", &json!({"name": "echo", "_meta": meta}))
}

/// Returns requests that the fast path answers.
pub fn taken() -> Vec<Case> {
    let mut all = vec![echo(), modern_echo()];
    let versions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
    all.extend(versions.map(|version| echo().with("mcp-protocol-version", version)));
    let ids = ["0", "-7", "9223372036854775807", "\"1\"", "\"\"", r#""\u00e4 \"x\" \n""#];
    all.extend(ids.map(with_id));
    all.extend([echo().without("accept"), echo().and("accept", "text/html")]);
    for media_types in [
        "text/event-stream,application/json",
        "Application/JSON , text/Event-Stream, */*",
        "*/*",
        "application/json",
        "application/*",
        "",
    ] {
        all.push(echo().with("accept", media_types));
    }
    all.push(echo().with("content-type", "Application/JSON ; charset=utf-8"));
    all.extend(["localhost", "LOCALHOST:1", "[::1]:80", "127.0.0.1"].map(|host| echo().with("host", host)));
    all.extend(lists());
    all.extend(arguments().map(|params| Case::legacy("tools/call", params)));
    all.extend(arguments().map(|params| Case::modern("tools/call", &serde_json::from_str(params).unwrap())));
    all.extend([
        Case::raw(r#" {"method":"tools/call","params":{"arguments":{},"na\u006de":"echo"},"id":1,"jsonrpc":"2.0"} "#),
        Case::legacy("tools/call", r#"{"name":"echo","_meta":{"vendor/x":[{"a":null,"b":1.5}],"traceparent":"00"}}"#),
        Case::legacy("tools/call", r#"{"name":"echo","_meta":{}}"#),
        with_meta(&json!({"io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"}, "x": 1})),
        with_meta(&json!({"io.modelcontextprotocol/clientInfo": 5})),
        with_meta(&json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}}})),
        // A call of a tool that is not `async` does not become a task.
        with_meta(&tasks()),
        // Only 2026-07-28 repeats arguments in headers.
        Case::legacy("tools/call", r#"{"name":"regional","arguments":{"where":{"region":"eu"}}}"#),
        // A client without tasks waits.
        Case::modern("tools/call", &json!({"name": "job", "arguments": {"value": 1}})),
    ]);
    all
}

fn tasks() -> Value {
    json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}})
}

fn lists() -> Vec<Case> {
    vec![
        Case::raw(r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#),
        Case::legacy("tools/list", "{}").with("mcp-protocol-version", "2025-06-18"),
        Case::legacy("tools/list", r#"{"_meta":{"vendor/x":1}}"#),
        Case::modern("tools/list", &json!({})),
        Case::modern("tools/list", &json!({})).with("mcp-name", "ignored"),
    ]
}

/// Returns valid parameters of calls, whose arguments are valid or not.
fn arguments() -> impl Iterator<Item = &'static str> {
    [
        r#"{"name":"echo"}"#,
        r#"{"name":"echo","arguments":{"a":1,"b":{"c":[]},"a":2}}"#,
        r#"{"name":"echo","arguments":{"n":[9007199254740993,18446744073709551615,-9223372036854775808]}}"#,
        r#"{"name":"echo","arguments":{"n":[1.0,0.1,1e-7,1e300,-0.0,-0,100e2,18446744073709551616]}}"#,
        r#"{"name":"echo","arguments":{"t":"ä 🦀 \u0000 \"\\ \u2028 \ud83e\udd80","":null,"type":"text","_meta":{}}}"#,
        r#"{"name":"wait","arguments":{"ms":"1"}}"#,
        r#"{"name":"wait","arguments":{"mss":1}}"#,
        r#"{"name":"wait","arguments":{"ms":"x"}}"#,
        r#"{"name":"wait","arguments":{}}"#,
        r#"{"name":"calculate","arguments":{"expression":"1 / 0"}}"#,
        r#"{"name":"calculate","arguments":{"expression":"6 * 7"}}"#,
        r#"{"name":"nothing","arguments":{}}"#,
        r#"{"name":"calculat","arguments":{}}"#,
        r#"{"name":"","arguments":{}}"#,
    ]
    .into_iter()
}

/// Returns calls with every kind of result.
pub fn results() -> Vec<Case> {
    let image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let text = json!({"type": "text", "text": "a \"b\"\n"});
    let blocks = [
        json!([]),
        json!([text]),
        json!([text, {"type": "text", "text": ""}]),
        json!([{"type": "image", "data": image, "mime_type": "image/png"}, text]),
        json!([{"type": "audio", "data": "AA==", "mime_type": "audio/wav"}]),
        json!([{"type": "resource", "resource": {"uri": "a:b", "text": "t"}}, {"type": "chart", "points": [1.50]}]),
        json!([{"type": "resource_link", "uri": "a:b", "name": "n"}]),
    ];
    let blocks = blocks.into_iter().map(|value| json!({"name": "blocks", "arguments": {"value": value}}));
    let values = [json!({"a": [1.0, {}]}), json!([1, "x"]), json!("text"), json!(5), json!(null), json!({})];
    let values = values.into_iter().map(|value| json!({"name": "cut", "arguments": {"value": value}}));
    let long = json!({"text": "x".repeat(500)});
    let long = ["long", "cut"].map(|name| json!({"name": name, "arguments": {"value": long}}));
    let large = json!({"name": "echo", "arguments": {"text": "x\"".repeat(100_000)}});
    let others = [
        json!({"name": "fails", "arguments": {"value": "no \"such\" city"}}),
        json!({"name": "job", "arguments": {"value": 1}}),
        json!({"name": "unknown"}),
        large,
    ];
    let all: Vec<Value> = blocks.chain(values).chain(long).chain(others).collect();
    let legacy = all.iter().map(|params| Case::legacy("tools/call", &params.to_string()));
    legacy.chain(all.iter().map(|params| Case::modern("tools/call", params))).collect()
}

/// Returns requests that rmcp must answer.
pub fn left() -> Vec<Case> {
    let mut all = headers();
    all.extend(modern_headers());
    all.extend(["null", "1.0", "1e2", "-0", "true", "[]", "{}", "9223372036854775808", "1,\"id\":2"].map(with_id));
    all.extend(bodies().map(Case::raw));
    let params = [
        r#"{"arguments":{}}"#,
        r#"{"name":5}"#,
        r#"{"name":null}"#,
        r#"{"name":"echo","arguments":null}"#,
        r#"{"name":"echo","arguments":[]}"#,
        r#"{"name":"echo","arguments":"{}"}"#,
        r#"{"name":"echo","requestState":"x"}"#,
        r#"{"name":"echo","task":{}}"#,
        r#"{"name":"echo","name":"echo"}"#,
        r#"{"name":"echo","arguments":{},"arguments":{}}"#,
        r#"{"name":"echo","_meta":null}"#,
        r#"{"name":"echo","_meta":[]}"#,
        r#"{"name":"echo","_meta":{"progressToken":1}}"#,
        r#"{"name":"echo","_meta":{"progressToken":null}}"#,
        r#"{"name":"echo","_meta":{"x":1e999}}"#,
        r#"{"name":"echo","_meta":{"io.modelcontextprotocol/logLevel":"info"}}"#,
        r#"{"name":"echo","_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#,
        r#"{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
        r#"{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18"}}"#,
        r#"{"name":"echo","arguments":{"n":123456789012345678901234567890}}"#,
        r#"{"name":"echo","arguments":{"n":1e999}}"#,
        r#"{"name":"echo","arguments":{"t":"\ud800"}}"#,
        "null",
        "[]",
        "{}",
    ];
    all.extend(params.map(|params| Case::legacy("tools/call", params)));
    let lists = ["null", "[]", r#"{"cursor":"YQ"}"#, r#"{"cursor":null}"#, r#"{"name":"a"}"#, r#"{"arguments":{}}"#];
    all.extend(lists.map(|params| Case::legacy("tools/list", params)));
    all.extend(["ping", "initialize", "tasks/get", "tools/Call", ""].map(|method| Case::legacy(method, ECHO)));
    all
}

/// Returns bodies that are not requests of a supported method.
fn bodies() -> impl Iterator<Item = &'static str> {
    [
        "",
        "{",
        "[]",
        "null",
        r#"{"id":7}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#,
        r#"{"id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","x":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"} x"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#,
    ]
    .into_iter()
}

fn headers() -> Vec<Case> {
    let mut all = vec![
        echo().without("content-type"),
        echo().with("mcp-session-id", "a"),
        echo().with("origin", "http://127.0.0.1"),
        echo().with("origin", "http://evil.example"),
        echo().with("mcp-protocol-version", "2024-01-01"),
        echo().with("mcp-protocol-version", ""),
        echo().with("mcp-protocol-version", MODERN),
        echo().with("mcp-protocol-version", "2025-06-18").and("mcp-protocol-version", "2025-06-18"),
    ];
    for accepted in ["text/html", "text/event-stream", "text/*", "*/*;q=0.8", "application/json;q=0, text/event-stream"]
    {
        all.push(echo().with("accept", accepted));
    }
    for media_type in ["text/plain", "application/vnd.x+json", "application/jsonx"] {
        all.push(echo().with("content-type", media_type));
    }
    all
}

fn modern_headers() -> Vec<Case> {
    let regional = json!({"name": "regional", "arguments": {"where": {"region": "eu"}}});
    let capabilities = |given: Value| with_meta(&json!({"io.modelcontextprotocol/clientCapabilities": given}));
    let version = |given: Value| with_meta(&json!({"io.modelcontextprotocol/protocolVersion": given}));
    let job = json!({"name": "job", "arguments": {"value": 1}, "_meta": tasks()});
    vec![
        modern_echo().without("mcp-protocol-version"),
        modern_echo().with("mcp-protocol-version", "2025-11-25"),
        modern_echo().with("mcp-protocol-version", "2027-01-01"),
        modern_echo().without("mcp-method"),
        modern_echo().with("mcp-method", "tools/list"),
        modern_echo().and("mcp-method", "tools/call"),
        modern_echo().without("mcp-name"),
        modern_echo().with("mcp-name", "Echo"),
        modern_echo().and("mcp-name", "echo"),
        modern_echo().with("mcp-name", "=?base64?ZWNobw==?="),
        Case::modern("tools/call", &regional),
        Case::modern("tools/call", &regional).with("mcp-param-region", "eu"),
        Case::modern("tools/call", &job),
        Case::modern("tools/list", &json!({})).without("mcp-method"),
        version(json!("2025-06-18")),
        version(json!("2027-01-01")),
        version(json!(5)),
        version(Value::Null),
        capabilities(Value::Null),
        capabilities(json!("x")),
        capabilities(json!({"extensions": 1})),
    ]
}
