//! Tests of calls in a session, which has its own view of the tools.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{call_request, echo, output, service};
use crate::app::App;
use crate::arguments::stream::CompleteArguments;
use crate::domain::{Call, CallRequest, Code, Session, Time};
use crate::engine::{Submission, Wait};

async fn grouped() -> App {
    let tool = |name: &str, groups: Value| {
        let mut tool = echo(name, json!({"text": {"type": "string"}}), &[]);
        (tool["groups"], tool["description"]) = (groups, "Tells the weather.".into());
        tool
    };
    service(json!([tool("in.a", json!(["a"])), tool("in_b", json!(["b"])), tool("in_none", json!([]))])).await
}

fn session(switches: &[(&str, bool)], tools: Option<&[&str]>) -> Arc<Session> {
    let groups = switches.iter().map(|(name, active)| ((*name).to_owned(), *active)).collect();
    let tools = tools.map(|tools| tools.iter().map(|name| (*name).to_owned()).collect());
    Arc::new(Session { groups, tools, ..Session::new("s".into(), Time(0)) })
}

async fn ended_in(app: &App, session: Option<&Arc<Session>>, request: CallRequest) -> Arc<Call> {
    let submission = Submission {
        calls: vec![request],
        session: session.map(|session| session.id.clone()),
        conversation: session.cloned(),
        wait: Wait::Result,
        ..Submission::default()
    };
    let submitted = app.engine.submit_now(&app.operator, submission, &app.engine.ids(1), 0).unwrap();
    submitted.wait_all().await.unwrap().remove(0)
}

fn code(call: &Call) -> Option<Code> {
    call.outcome.as_ref().unwrap().error.as_ref().map(|failure| failure.code)
}

#[tokio::test]
async fn deactivated_group_is_unavailable_in_its_session_only() {
    let app = grouped().await;
    let (off, other) = (session(&[("a", false)], None), session(&[], None));
    let call = ended_in(&app, Some(&off), call_request("in.a", json!({}), None)).await;
    assert_eq!((code(&call), output(&call)), (Some(Code::ToolUnavailable), "Error: Tool \"in.a\" is not available"));
    for (session, name) in [(Some(&off), "in_b"), (Some(&off), "in_none"), (Some(&other), "in.a"), (None, "in.a")] {
        assert_eq!(code(&*ended_in(&app, session, call_request(name, json!({}), None)).await), None, "{name}");
    }
}

#[tokio::test]
async fn session_with_an_allow_list_sees_only_its_tools() {
    let app = grouped().await;
    let own = session(&[], Some(&["in_b", "echo"]));
    assert_eq!(code(&*ended_in(&app, Some(&own), call_request("in_b", json!({}), None)).await), None);
    let call = ended_in(&app, Some(&own), call_request("in_none", json!({}), None)).await;
    assert_eq!(code(&call), Some(Code::ToolUnavailable));
    let unknown = ended_in(&app, Some(&own), call_request("in_nobody", json!({}), None)).await;
    let text = "Error: Tool not found: in_nobody\nAvailable tools: echo, in_b";
    assert!(output(&unknown).starts_with(text), "{}", output(&unknown));
}

#[tokio::test]
async fn find_tools_and_call_tool_use_the_view_of_the_session() {
    let app = grouped().await;
    let off = session(&[("a", false)], None);
    for (session, expected) in [(Some(&off), vec!["in_b", "in_none"]), (None, vec!["in.a", "in_b", "in_none"])] {
        let call = ended_in(&app, session, call_request("find_tools", json!({"query": "weather"}), None)).await;
        let found: Value = serde_json::from_str(output(&call)).unwrap();
        let mut names: Vec<&str> =
            found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, expected);
        let through = json!({"name": "in.a", "arguments": {"text": "x"}});
        let call = ended_in(&app, session, call_request("call_tool", through, None)).await;
        assert_eq!((&*call.name, code(&call)), ("in.a", session.map(|_| Code::ToolUnavailable)));
    }
}

#[tokio::test]
async fn target_in_streamed_arguments_is_resolved_in_the_session() {
    let app = grouped().await;
    let off = session(&[("a", false)], None);
    for (name, expected) in
        [("in.a", Some(Code::ToolUnavailable)), ("in_b", None), ("nobody", Some(Code::ToolNotFound))]
    {
        let request = CallRequest { streamed: true, ..call_request("call_tool", json!("{\"name\": "), None) };
        let submission = Submission {
            calls: vec![request],
            conversation: Some(off.clone()),
            wait: Wait::Result,
            ..Submission::default()
        };
        let ids = app.engine.ids(1);
        let end = tokio::spawn(app.engine.submit_now(&app.operator, submission, &ids, 0).unwrap().wait_all());
        let draft = loop {
            match app.engine.draft(app.operator.tenant(), ids[0]) {
                Some(draft) => break draft,
                None => tokio::task::yield_now().await,
            }
        };
        draft.push(None, &format!("\"{name}\"}}")).unwrap();
        draft.complete(CompleteArguments::default()).unwrap();
        let call = end.await.unwrap().unwrap().remove(0);
        assert_eq!((&*call.name, code(&call)), (name, expected));
        if expected == Some(Code::ToolNotFound) {
            assert!(!output(&call).contains("in.a") && output(&call).contains("in_b"), "{}", output(&call));
        }
    }
}
