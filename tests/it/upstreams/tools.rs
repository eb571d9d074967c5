//! Tools of a server appear in every list and follow its changes.

use serde_json::{Value, json};

use super::raw_server::RawServer;
use super::{Fixture, options, tool};
use crate::mcp::modern;
use crate::support::client::send;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend};

/// Returns upstream tools with every member that the protocol defines.
fn upstream_tools() -> Value {
    json!([
        {"name": "read_file", "title": "Read File", "description": "Reads.\n\n{braces} and \"quotes\"",
            "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["path"],
                "properties": {"path": {"type": "string"}, "tail": {"description": "Last lines", "type": "number"}}},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
            "outputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "properties": {"content": {"type": "string"}}, "required": ["content"], "additionalProperties": false}},
        {"name": "git_status", "description": "Shows the working tree status",
            "inputSchema": {"properties": {"repo_path": {"title": "Repo Path", "type": "string"}}, "required": ["repo_path"],
                "type": "object", "title": "statusArguments"},
            "annotations": {"destructiveHint": false, "idempotentHint": true, "openWorldHint": false, "readOnlyHint": false,
                "vendor/risk": {"level": 3}, "audience": ["user"]},
            "_meta": {"vendor/x": {"a": [1, null]}, "com.example/y": "z"}},
        {"name": "bare", "inputSchema": {"type": "object"}},
        {"name": "titled", "inputSchema": {"type": "object"}, "annotations": {"title": "Has a title"},
            "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}]},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_passed_on_unchanged() {
    let fixture = Fixture::new(&upstream_tools());
    // The server sends its list in several pages.
    let app = fixture.served(json!({"env": {"PAGE": "1"}})).await;
    let list = app.get("/tools?format=mcp").await.ok();
    let own = |name: &str| {
        let mut tool = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone();
        tool["name"] = name.strip_prefix("s__").unwrap().into();
        tool
    };
    for tool in upstream_tools().as_array().unwrap() {
        assert_eq!(own(&format!("s__{}", tool["name"].as_str().unwrap())), *tool);
    }
    assert_eq!(fixture.heard("tools/list").len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_meta_and_annotations_are_kept() {
    let fixture = Fixture::new(&upstream_tools());
    let over_http = RawServer::start(upstream_tools(), false).await;
    let in_events = RawServer::start(upstream_tools(), true).await;
    let servers =
        json!({"s": fixture.declared(json!({})), "h": {"url": over_http.url()}, "e": {"url": in_events.url()}});
    let app = App::start_with(Backend::Sqlite, options(fixture.file_of(&servers))).await;
    let expected = &upstream_tools()[1];
    for server in ["s", "h", "e"] {
        let name = format!("{server}__git_status");
        let of = |list: &Value| {
            let tools = list["tools"].as_array().unwrap();
            let tool =
                tools.iter().find(|tool| tool["name"] == name.as_str()).unwrap_or_else(|| panic!("{list:#}")).clone();
            (tool["annotations"].clone(), tool["_meta"].clone())
        };
        let whole = (expected["annotations"].clone(), expected["_meta"].clone());
        assert_eq!(of(&app.get("/tools?format=mcp").await.ok()), whole, "{server}");
        let listed = send(modern(&app, "tools/list", json!({}), json!({}))).await.ok();
        assert_eq!(of(&listed["result"]), whole, "{server}");
        let definition = app.get(&format!("/tools/{server}.git_status")).await.ok();
        let kept = &definition["upstream"];
        assert_eq!((kept["annotations"].clone(), kept["_meta"].clone()), whole, "{definition:#}");
        // The definition can be read and stored unchanged.
        let own = format!("own_{server}");
        let mut copy = definition.clone();
        copy["name"] = own.as_str().into();
        assert_eq!(app.put(&format!("/tools/{own}"), &copy).await.status, 201);
    }
}

/// Also tests the recorded `tools/list` responses in the folder `TOOLPOST_MCP_TOOLS`, if it is set.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_tools_are_passed_on_unchanged() {
    let Some(folder) = std::env::var_os("TOOLPOST_MCP_TOOLS") else { return };
    for file in std::fs::read_dir(folder).unwrap() {
        let recorded: Value = serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        let fixture = Fixture::new(&recorded["tools"]);
        let app = fixture.served(json!({})).await;
        let list = app.get("/tools?format=mcp").await.ok();
        let server = app.upstream("s").await;
        assert_eq!(server["left_out"], json!([]));
        for tool in recorded["tools"].as_array().unwrap() {
            let name = format!("s__{}", tool["name"].as_str().unwrap().replace('.', "__"));
            let shown = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name.as_str()).unwrap();
            for member in ["title", "description", "inputSchema", "outputSchema", "annotations"] {
                assert_eq!(shown.get(member), tool.get(member), "{name} {member}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_shows_its_server_and_its_hints() {
    let fixture = Fixture::new(&upstream_tools());
    let app = fixture.served(json!({})).await;
    let read = app.get("/tools/s.read_file").await.ok();
    assert_eq!((&read["source"], &read["title"]), (&json!("mcp"), &json!("Read File")));
    assert_eq!(read["executor"], json!({"type": "mcp", "server": "s", "tool": "read_file"}));
    let hints = json!({"read_only": true, "destructive": true, "idempotent": false, "open_world": false});
    assert_eq!(read["annotations"], hints);
    assert_eq!(app.get("/tools/s.titled").await.ok()["title"], "Has a title");
    // A vendor that does not accept dots sees an alias, under which the tool can be called.
    let list = app.get("/tools?format=openai").await.ok();
    let functions: Vec<&str> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    let alias = functions.iter().find(|name| name.starts_with("s_bare")).unwrap();
    assert_eq!(succeeded(&app.call(alias, json!({})).await), "bare was called");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_follow_list_changes_of_their_server() {
    let fixture = Fixture::named(&["announce", "old"]);
    let app = fixture.served(json!({})).await;
    app.has_tools("s", &["s.announce", "s.old"]).await;
    fixture.offer(&json!([tool("announce"), tool("new")]));
    app.call("s.announce", json!({})).await;
    app.has_tools("s", &["s.announce", "s.new"]).await;
    let changes = app.upstream("s").await["changes"].clone();
    let describe =
        |change: &Value| format!("{} {}", change["change"].as_str().unwrap(), change["tool"].as_str().unwrap());
    assert_eq!(changes.as_array().unwrap().iter().map(describe).collect::<Vec<_>>(), ["added s.new", "removed s.old"]);
    assert_eq!(app.call("s.old", json!({})).await["error"]["code"], "TOOL_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_tools_are_omitted_and_named() {
    let bad = json!([tool("good"), {"name": " ", "inputSchema": {"type": "object"}},
        {"name": "no_schema"}, {"inputSchema": {"type": "object"}}, tool("good"),
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "outside", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}}]);
    let fixture = Fixture::new(&bad);
    let app = fixture.served(json!({})).await;
    let server = app.upstream("s").await;
    assert_eq!(server["tools"], json!(["s.good", "s.no_schema"]));
    let left_out = server["left_out"].as_array().unwrap();
    let mut tools: Vec<&str> = left_out.iter().map(|one| one["tool"].as_str().unwrap()).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["#1", "#3", "array", "good", "outside"]);
    let reason = |tool: &str| left_out.iter().find(|one| one["tool"] == tool).unwrap()["reason"].as_str().unwrap();
    assert!(reason("#1").contains("no name") && reason("array").contains("inputSchema: /type"), "{server:#}");
    assert_eq!(app.tools_of("s").await, ["s.good", "s.no_schema"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_with_sloppy_schemas_are_corrected_and_work() {
    let object = |property: Value| json!({"type": "object", "properties": {"a": property}});
    let sloppy = [
        json!({}),
        json!({"properties": {}}),
        json!({"type": "object", "properties": null}),
        json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id", "id"]}),
        object(json!({"type": "string", "required": true})),
        json!({"$ref": "#/definitions/A", "definitions": {"A": {"type": "object"}}}),
        object(json!({"type": "str"})),
        object(json!({"type": "string", "description": null})),
        object(json!({"type": "number", "minimum": 0, "exclusiveMinimum": true})),
        json!({"type": ["object", "null"]}),
        object(json!({"type": "string", "pattern": "("})),
    ];
    let mut tools: Vec<Value> =
        sloppy.iter().enumerate().map(|(n, schema)| json!({"name": format!("t{n}"), "inputSchema": schema})).collect();
    // Valid, although it needs backtracking.
    tools.push(json!({"name": "email", "inputSchema": object(json!({"type": "string",
        "pattern": "^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z.]+$"}))}));
    tools.push(json!({"name": "output", "inputSchema": {"type": "object"}, "outputSchema": {"type": "banana"}}));
    let fixture = Fixture::new(&Value::Array(tools));
    let app = fixture.served(json!({})).await;
    let server = app.upstream("s").await;
    assert_eq!(server["left_out"], json!([]), "{server:#}");
    let noted = |name: &str| server["corrected"].as_array().unwrap().iter().any(|one| one["tool"] == name);
    for n in 0..sloppy.len() {
        let name = format!("t{n}");
        assert!(noted(&name), "{server:#}");
        let shown = app.get(&format!("/tools/s.{name}")).await.ok();
        assert!(!shown["upstream"]["corrected"].as_array().unwrap().is_empty(), "{shown:#}");
        let arguments = json!({"id": "x", "a": if n == 8 { json!(1) } else { json!("x") }});
        assert_eq!(succeeded(&app.call(&format!("s.{name}"), arguments).await), format!("{name} was called"));
    }
    assert!(noted("output") && !noted("email"), "{server:#}");
    let email = async |text: &str| app.call("s.email", json!({"a": text})).await;
    assert_eq!(succeeded(&email("a.b@c.de").await), "email was called");
    assert_eq!(email("a..b@c.de").await["error"]["code"], "TOOL_VALIDATION_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_with_names_of_any_kind_are_called_under_aliases() {
    let long = "x".repeat(140);
    let wild = ["nasa/get-picture", "查询天气", "a b", &long];
    let fixture = Fixture::new(&wild.iter().map(|name| tool(name)).collect());
    let app = fixture.served(json!({"pin": true})).await;
    let server = app.upstream("s").await;
    assert_eq!(server["left_out"], json!([]), "{server:#}");
    for (index, name) in wild.into_iter().enumerate() {
        let shown = server["tools"][index].as_str().unwrap();
        assert_eq!(app.get(&format!("/tools/{shown}")).await.ok()["executor"]["tool"], name);
        assert_eq!(succeeded(&app.call(shown, json!({})).await), format!("{name} was called"));
        let corrected = &server["corrected"][index];
        assert!(corrected["tool"] == name && corrected["note"].as_str().unwrap().contains(shown), "{server:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registered_tool_hides_an_upstream_one_until_it_is_deleted() {
    let fixture = Fixture::named(&["echo"]);
    let app = fixture.served(json!({})).await;
    app.echo_of("s.echo", json!({"own": {}})).await;
    assert_eq!(app.get("/tools/s.echo").await.ok()["source"], "api");
    assert_eq!(app.delete("/tools/s.echo").await.status, 204);
    assert_eq!(app.get("/tools/s.echo").await.ok()["source"], "mcp");
    let refused = app.delete("/tools/s.echo").await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("TOOL_NOT_REGISTERED")));
}

#[tokio::test(flavor = "multi_thread")]
async fn own_definition_can_use_an_upstream_tool() {
    let fixture = Fixture::new(&upstream_tools());
    let app = fixture.served(json!({})).await;
    let executor = json!({"type": "mcp", "server": "s", "tool": "read_file"});
    let own = json!({"name": "my_reader", "executor": executor, "limits": {"max_output_lines": 1}});
    let registered = app.register(own).await;
    assert_eq!(registered["input_schema"], upstream_tools()[0]["inputSchema"]);
    assert_eq!(succeeded(&app.call("my_reader", json!({"path": "x"})).await), "read_file was called");
    let nowhere = json!({"name": "a", "input_schema": {"type": "object"},
        "executor": {"type": "mcp", "server": "gone", "tool": "x"}});
    app.register(nowhere).await;
    let call = app.call("a", json!({})).await;
    assert_eq!(call["error"]["code"], "TOOL_UNAVAILABLE", "{call:#}");
}
