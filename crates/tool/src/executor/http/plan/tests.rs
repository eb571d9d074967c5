use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::executor::signing_key::SigningKey;
use crate::executor::{ResultSlot, emitter};

fn spec(value: Value) -> HttpSpec {
    serde_json::from_value(value).unwrap()
}

fn run(arguments: Value) -> Invocation {
    Invocation {
        id: uuid::Uuid::from_u128(7),
        context: Arc::default(),
        agent: None,
        redaction: None,
        session: None,
        session_snapshot: None,
        tenant: toolpost_core::domain::Tenant::default(),
        allowed: None,
        call_id: "call_1".into(),
        name: "t".into(),
        naming: toolpost_core::domain::Naming::default(),
        arguments: Arc::new(arguments),
        attempt: 2,
        idle_timeout_ms: None,
        elapsed_ms: 0,
        awaits_external: false,
        result_slot: ResultSlot::default(),
        output: toolpost_core::domain::limits::Bounds::default(),
        timeout_ms: 1500,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        emitter: emitter::channel().0,
        cancel: CancellationToken::new(),
    }
}

fn request(value: Value, arguments: Value) -> Result<Outgoing, String> {
    request_of(value, arguments, &reporting())
}

fn request_of(value: Value, arguments: Value, reporting: &Reporting) -> Result<Outgoing, String> {
    let secrets = Secrets::new(|name| (name == "KEY").then(|| "s3cret".to_owned()));
    Plan::new(&spec(value), &json!({})).unwrap().request(&run(arguments), &secrets, reporting)
}

fn key() -> SigningKey {
    SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap()
}

fn reporting() -> Reporting {
    let reporting = Reporting::new(key());
    reporting.set_base("https://h/under");
    reporting
}

fn faults(value: Value, schema: Value) -> Vec<String> {
    Plan::new(&spec(value), &schema).unwrap_err().into_iter().map(|(pointer, _)| pointer).collect()
}

#[test]
fn without_a_body_the_envelope_is_posted() {
    let request = request(json!({"url": "http://h/p"}), json!({"a": 1})).unwrap();
    assert_eq!((request.method, request.url.as_str()), (Method::POST, "http://h/p"));
    let body: Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
    let (id, token) = ("00000000-0000-0000-0000-000000000007", key().token(uuid::Uuid::from_u128(7)));
    assert_eq!(
        body,
        json!({"id": id, "call_id": "call_1", "name": "t", "arguments": {"a": 1}, "context": {}, "agent": null,
            "attempt": 2, "deadline_ms": 1500, "progress_url": format!("https://h/under/tool-calls/{id}/progress"),
            "result_url": format!("https://h/under/tool-calls/{id}/result"), "token": token})
    );
    assert_eq!(request.private["content-type"], "application/json");
}

#[test]
fn without_a_base_url_the_envelope_has_no_reporting_urls() {
    let request = request_of(json!({"url": "http://h/p"}), json!({}), &Reporting::new(key())).unwrap();
    let body: Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
    for member in ["progress_url", "result_url", "token"] {
        assert_eq!(body.get(member), Some(&Value::Null), "{member}");
    }
}

#[test]
fn every_request_has_call_trace_and_accept_headers() {
    let form = json!({"content-type": "application/x-www-form-urlencoded"});
    for declared in [
        json!({"url": "http://h"}),
        json!({"url": "http://h", "method": "PUT", "body": {"a": "{a}"}}),
        json!({"url": "http://h", "body": {"a": "{a}"}, "headers": form}),
        json!({"url": "http://h/{a}", "method": "GET"}),
        json!({"url": "http://h", "method": "DELETE"}),
        json!({"url": "http://h", "method": "HEAD"}),
    ] {
        let request = request(declared.clone(), json!({"a": 1})).unwrap();
        assert_eq!(request.signed_for, Some(uuid::Uuid::from_u128(7)), "{declared}");
        assert_eq!(request.private["idempotency-key"], "00000000-0000-0000-0000-000000000007", "{declared}");
        assert_eq!(
            request.headers["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "{declared}"
        );
        assert_eq!(request.headers["accept-encoding"], "identity", "{declared}");
        assert!(request.headers["accept"].to_str().unwrap().contains("text/event-stream"), "{declared}");
    }
}

#[test]
fn request_without_a_body_puts_unplaced_arguments_into_its_query() {
    for method in ["GET", "delete", "HEAD"] {
        let request = request(
            json!({"url": "http://h/{a}?own=1", "method": method, "query": {"q": "{b}", "fixed": 2}, "headers": {"x-c": "{c}"}}),
            json!({"a": "x", "b": "y", "c": "z", "d": "&é", "e": [1, "2"], "f": null, "g": false}),
        )
        .unwrap();
        let query = "own=1&q=y&fixed=2&d=%26%C3%A9&e=%5B1%2C%222%22%5D&g=false";
        assert_eq!(request.url.as_str(), format!("http://h/x?{query}"));
        assert_eq!((request.body, request.private.get("content-type")), (None, None));
        assert_eq!(request.private["x-c"], "z");
    }
}

#[test]
fn body_is_json_or_a_form() {
    let json_body = request(
        json!({"url": "http://h", "method": "GET", "body": {"n": "{n}", "t": "<{n}>", "gone": "{m}"}, "headers": {"Content-Type": "application/vnd.x+json"}}),
        json!({"n": 1, "other": 2}),
    )
    .unwrap();
    assert_eq!(json_body.body.unwrap(), r#"{"n":1,"t":"<1>"}"#);
    assert_eq!(
        (json_body.url.as_str(), &json_body.private["content-type"]),
        ("http://h/", &HeaderValue::from_static("application/vnd.x+json"))
    );

    let form = request(
        json!({"url": "http://h", "body": {"a b": "{n}", "t": "&{s}", "gone": "{m}"},
            "headers": {"content-type": "application/x-www-form-urlencoded"}}),
        json!({"n": 1, "s": "é="}),
    )
    .unwrap();
    assert_eq!(form.body.unwrap(), "a%20b=1&t=%26%C3%A9%3D");
}

#[test]
fn declared_headers_replace_those_of_the_service() {
    let request = request(
        json!({"url": "http://h", "headers": {"Idempotency-Key": "{order}"}, "auth": {"type": "bearer", "token": {"secret": "KEY"}}}),
        json!({"order": "o-1"}),
    )
    .unwrap();
    assert_eq!(request.private["idempotency-key"], "o-1");
    assert_eq!(request.private["authorization"], "Bearer s3cret");
    assert!(!request.headers.contains_key("authorization"));
}

#[test]
fn errors_of_rendering_have_messages() {
    let path = request(json!({"url": "http://h/{a}"}), json!({})).unwrap_err();
    assert_eq!(path, "the URL needs the argument \"a\", which is missing");
    let secret = json!({"url": "http://h", "auth": {"type": "basic", "username": "u", "password": {"secret": "NO"}}});
    assert!(request(secret, json!({})).unwrap_err().contains("TOOLPOST_SECRET_NO"));
}

#[test]
fn every_fault_of_a_definition_is_reported() {
    let found = faults(
        json!({"url": "ftp://h", "method": "TRACE", "headers": {"Host": "x", "x-ok": "{nope}", "Authorization": "x"}, "query": {"a/b": "{"},
            "body": {"k": ["{"]}, "auth": {"type": "bearer", "token": {"secret": "a-b"}}}),
        json!({"properties": {}}),
    );
    let expected = [
        "/method",
        "/url",
        "/headers/Host",
        "/query/a~1b",
        "/body/k/0",
        "/auth/token/secret",
        "/headers/Authorization",
        "/headers/x-ok",
    ];
    assert_eq!(found, expected);
    assert_eq!(faults(json!({"url": "http://h", "headers": {"X-A": "1", "x-a": "2"}}), json!({})), ["/headers/x-a"]);
    assert_eq!(faults(json!({"url": "http://h/{x}"}), json!({"properties": {"y": {}}})), ["/url"]);
    for content_type in ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded", "{a}"] {
        let spec = json!({"url": "http://h", "headers": {"content-type": content_type}});
        assert_eq!(faults(spec, json!({})), ["/headers/content-type"], "{content_type}");
    }
}

#[test]
fn styles_apply_to_all_parts_of_a_request() {
    let built = request(
        json!({"url": "http://h/{ids}/x", "method": "GET", "query": {"tag": "{tags}", "json": "{tags2}", "in text": "<{tags}>"},
            "headers": {"X-Ids": "{ids}"}, "cookies": {"c": "{crumbs}", "one": "{one}", "gone": "{gone}"},
            "styles": {"ids": {"style": "simple"}, "tags": {"style": "form", "explode": true},
                "crumbs": {"style": "form"}, "rest": {"style": "deep_object"}}}),
        json!({"ids": [1, "2,3"], "tags": ["a", "b&"], "tags2": ["a"], "crumbs": ["x;", "y"], "one": "é %", "rest": {"k": 1}}),
    )
    .unwrap();
    let query = "tag=a&tag=b%26&json=%5B%22a%22%5D&in%20text=%3C%5B%22a%22%2C%22b%26%22%5D%3E&rest[k]=1";
    assert_eq!(built.url.as_str(), format!("http://h/1,2%2C3/x?{query}"));
    assert_eq!(built.private["x-ids"], "1,2,3");
    assert_eq!(built.private["cookie"], "c=x%3B,y; one=%C3%A9%20%25");
    assert!(built.private["cookie"].is_sensitive());
    let form = request(
        json!({"url": "http://h", "body": {"t": "{t}", "u": "{u}"}, "body_type": "form",
            "styles": {"t": {"style": "form", "explode": true}}}),
        json!({"t": [1, 2], "u": [3]}),
    );
    assert_eq!(form.unwrap().body.unwrap(), "t=1&t=2&u=%5B3%5D");
}

#[test]
fn body_can_be_text_bytes_or_absent() {
    let text = json!({"url": "http://h", "body": "{t}", "body_type": "text"});
    let sent = request(text.clone(), json!({"t": "é\n<"})).unwrap();
    assert_eq!(
        (sent.body.unwrap(), &sent.private["content-type"]),
        ("é\n<".into(), &"text/plain; charset=utf-8".parse().unwrap())
    );
    let bytes =
        json!({"url": "http://h", "body": "{t}", "body_type": "base64", "headers": {"Content-Type": "image/png"}});
    let sent = request(bytes.clone(), json!({"t": "AP+A"})).unwrap();
    assert_eq!(
        (&sent.body.unwrap()[..], &sent.private["content-type"]),
        (&[0, 255, 128][..], &"image/png".parse().unwrap())
    );
    assert!(
        request(bytes.clone(), json!({"t": "no base64"})).unwrap_err().starts_with("the request body is not base64")
    );
    for absent in [text, bytes] {
        let sent = request(absent, json!({})).unwrap();
        assert_eq!((sent.body, sent.private.get("content-type")), (None, None));
    }
    let sent = request(json!({"url": "http://h", "method": "POST", "body_type": "none"}), json!({"q": 1})).unwrap();
    assert_eq!((sent.body, sent.url.as_str(), sent.private.get("content-type")), (None, "http://h/?q=1", None));
}

#[test]
fn mismatched_body_types_are_faults() {
    for (spec, pointer) in [
        (json!({"body_type": "none", "body": {}}), "/body"),
        (json!({"body_type": "none", "headers": {"Content-Type": "text/plain"}}), "/headers/Content-Type"),
        (json!({"body_type": "text", "body": {}}), "/body"),
        (json!({"body_type": "base64"}), "/body"),
        (json!({"body_type": "text", "body": "x", "headers": {"Content-Type": "{a}"}}), "/headers/Content-Type"),
        (json!({"body_type": "form", "body": "{a}"}), "/body_type"),
        (
            json!({"body_type": "json", "body": "{a}", "headers": {"Content-Type": "text/plain"}}),
            "/headers/Content-Type",
        ),
        (json!({"body_type": "json"}), "/body"),
        (json!({"cookies": {"a b": "1"}}), "/cookies/a b"),
        (json!({"cookies": {"a": "1"}, "headers": {"Cookie": "b=1"}}), "/headers/Cookie"),
        (json!({"cookies": {"a": "{"}}), "/cookies/a"),
    ] {
        let mut whole = json!({"url": "http://h"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        assert_eq!(faults(whole, json!({})), [pointer], "{spec}");
    }
    let styled = json!({"url": "http://h", "styles": {"b": {"style": "form"}}});
    assert_eq!(faults(styled, json!({"properties": {"a": {}}})), ["/styles/b"]);
}
