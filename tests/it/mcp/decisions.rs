//! Approvals that the user of an MCP client decides (SEP-2322): `[approvals] allow_self` permits it, and the client shows
//! the form.

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData};
use serde_json::{Value, json};

use super::approvals::{decided, pays, pending, register};
use super::modern;
use crate::support::client::send;
use crate::support::{App, Backend, Client, Options, bounded, eventually};

/// Starts a service whose callers may approve their own calls.
async fn start(backend: Backend) -> App {
    let options = Options { configure: Some(|config| config.approvals.allow_self = true), ..Options::default() };
    let app = App::start_with(backend, options).await;
    register(&app).await;
    app
}

/// Sends a call of a client that shows forms, and returns the response.
async fn pay(client: &Client, params: Value) -> Value {
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
    send(modern(client, "tools/call", params, meta)).await.json
}

/// Sends a call that must be asked about, and returns the request for a decision.
async fn input_request(client: &Client, params: Value) -> Value {
    let result = pay(client, params).await["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_eq!(result["inputRequests"]["approval"]["method"], "elicitation/create");
    result
}

/// Repeats a call with the response of its user.
async fn answer(client: &Client, mut params: Value, input_request: &Value, response: Value) -> Value {
    params["requestState"] = input_request["requestState"].clone();
    params["inputResponses"] = json!({"approval": response});
    pay(client, params).await
}

fn chosen(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision, "reason": "Invoice 17"}})
}

on_both_databases!(
    async fn user_of_a_client_with_forms_decides(backend: Backend) {
        let app = start(backend).await;
        for (name, response, text) in [
            ("approve_me", chosen("approve"), r#"{"amount":5}"#),
            ("policy_approves_me", chosen("approve"), r#"{"amount":5}"#),
            ("reject_me", chosen("reject"), r#"Error: Tool call "reject_me" was rejected: Invoice 17"#),
            (
                "reject_me",
                json!({"action": "decline"}),
                r#"Error: Tool call "reject_me" was rejected: no reason was given"#,
            ),
        ] {
            let request = input_request(&app, pays(name)).await;
            let form = &request["inputRequests"]["approval"]["params"];
            let message = form["message"].as_str().unwrap();
            assert!(message.contains(name) && message.contains("\"amount\": 5"), "{message}");
            assert_eq!(form["requestedSchema"]["required"], json!(["decision"]));
            let result = answer(&app, pays(name), &request, response).await["result"].clone();
            assert_eq!(result["content"][0]["text"], text);
        }
        assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"].as_array().unwrap().len(), 4, "each call ran once");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn changed_tool_asks_the_user_again() {
    let app = start(Backend::Sqlite).await;
    let first = input_request(&app, pays("approve_me")).await;
    let mut tool = app.get("/tools/approve_me").await.ok();
    let definition = json!({"name": "approve_me", "description": "Pays more.", "input_schema": tool["input_schema"].take(),
        "executor": {"type": "builtin", "name": "echo"}, "approval": {}});
    app.request(reqwest::Method::PUT, "/tools/approve_me").json(&definition).send().await.unwrap();
    let result = answer(&app, pays("approve_me"), &first, chosen("approve")).await["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_ne!(result["requestState"], first["requestState"]);
    let result = answer(&app, pays("approve_me"), &result, chosen("approve")).await["result"].clone();
    assert_eq!(result["content"][0]["text"], r#"{"amount":5}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn dismissed_form_leaves_the_call_waiting() {
    let app = start(Backend::Sqlite).await;
    let request = input_request(&app, pays("approve_me")).await;
    let again = answer(&app, pays("approve_me"), &request, json!({"action": "cancel"}));
    let (result, _) = tokio::join!(again, decided(&app, "approve_me", "approve"));
    assert_eq!(result["result"]["content"][0]["text"], r#"{"amount":5}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_too_long_to_read_show_no_form() {
    let app = start(Backend::Sqlite).await;
    let params = json!({"name": "approve_me", "arguments": {"amount": 5, "note": "a".repeat(20_000)}});
    let (result, _) = tokio::join!(pay(&app, params), decided(&app, "approve_me", "approve"));
    assert_eq!(result["result"]["structuredContent"]["amount"], 5, "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_whose_users_may_not_decide_wait() {
    let app = App::on_sqlite().await;
    register(&app).await;
    let (result, _) = tokio::join!(pay(&app, pays("approve_me")), decided(&app, "approve_me", "approve"));
    assert_eq!(result["result"]["content"][0]["text"], r#"{"amount":5}"#);

    let app = start(Backend::Sqlite).await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let admin = app.with_key(&admin);
    let (caller, _) = admin.key(json!({"scopes": ["call"]})).await;
    let caller = app.with_key(&caller);
    let (result, _) = tokio::join!(pay(&caller, pays("approve_me")), decided(&admin, "approve_me", "approve"));
    assert_eq!(result["result"]["content"][0]["text"], r#"{"amount":5}"#);
    // The caller cannot decide by repeating a request either.
    let forged = tokio::spawn({
        let (caller, admin) = (caller.clone(), admin.clone());
        async move {
            let call = pending(&admin, "approve_me").await;
            let state = format!("{} {}", call["id"].as_str().unwrap(), call["approval"]["digest"].as_str().unwrap());
            let state = json!({"requestState": state});
            let again = answer(&caller, pays("approve_me"), &state, chosen("approve"));
            let rejected = async {
                decided(&admin, "approve_me", "reject").await;
            };
            tokio::join!(again, rejected).0
        }
    });
    let waits = pay(&caller, pays("approve_me")).await;
    assert_eq!(waits["result"]["isError"], true, "{waits}");
    assert_eq!(forged.await.unwrap()["result"]["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_of_another_call_is_rejected() {
    let app = start(Backend::Sqlite).await;
    let request = input_request(&app, pays("approve_me")).await;
    let state = |state: &str| json!({"requestState": state});
    let unknown = format!("0197d3f0-0000-7000-8000-000000000000 sha256:{}", "0".repeat(64));
    for (name, input_request) in
        [("reject_me", request.clone()), ("approve_me", state("x")), ("approve_me", state(&unknown))]
    {
        let refused = answer(&app, pays(name), &input_request, chosen("approve")).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let wrong = answer(&app, pays("approve_me"), &request, json!({"action": "accept", "content": {}})).await;
    assert!(wrong["error"]["message"].as_str().unwrap().contains("inputResponses.approval"), "{wrong}");
    assert_eq!(app.get("/approvals").await.ok()["approvals"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_client_leaves_the_approval_open() {
    let app = start(Backend::Sqlite).await;
    input_request(&app, pays("approve_me")).await;
    let id = decided(&app, "approve_me", "approve").await;
    let call = eventually("the end", || async {
        let call = app.stored(&id).await;
        (call["status"] == "SUCCESS").then_some(call)
    });
    assert_eq!(call.await["arguments"]["amount"], 5);
}

/// A client of rmcp whose user approves everything.
#[derive(Clone)]
struct Approver;

impl ClientHandler for Approver {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.capabilities = ClientCapabilities::builder().enable_elicitation().build();
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        assert!(matches!(request, ElicitRequestParams::FormElicitationParams { .. }));
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"decision": "approve"})))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_sdk_shows_the_form_and_gets_the_result() {
    let app = start(Backend::Sqlite).await;
    let transport = StreamableHttpClientTransport::from_uri(app.url("/mcp"));
    let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = bounded("a client", Approver.serve_with_lifecycle(transport, mode)).await.unwrap();
    let arguments = json!({"amount": 5}).as_object().unwrap().clone();
    let params = CallToolRequestParams::new("approve_me").with_arguments(arguments);
    let result = bounded("a result", client.call_tool(params)).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({"amount": 5})));
    client.cancel().await.unwrap();
}
