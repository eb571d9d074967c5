//! Round trips of arbitrary arguments to the server.

use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

/// Generates arbitrary strings, with an emphasis on characters that encoders often handle wrong.
fn texts() -> impl Strategy<Value = String> {
    let hostile = prop::sample::select(vec![
        "",
        "%",
        "%2F",
        "%2e%2e",
        "../..",
        "a/b?c#d&e=f+g h",
        "{a}",
        "}}{{",
        "\u{0}",
        "é😀",
        "\\",
        "\"",
        "\r\n",
        ";",
        "\u{feff}",
    ]);
    prop_oneof![any::<String>(), prop::collection::vec(hostile, 0..4).prop_map(|parts| parts.concat())]
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

#[test]
fn any_string_survives_path_query_header_and_body() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(TestServer::answering(response("200 OK", "")));
    let client = client(&["127.0.0.1"]);
    let (port, received) = (server.port, std::cell::RefCell::new(server.received));
    let body = json!({"exact": "{a}", "within": "<{a}>", "gone": "{missing}"});
    let query = json!({"q": "{a}"});
    let full = |header: Value, path: &str| {
        let spec =
            json!({"url": format!("http://127.0.0.1:{port}{path}"), "body": body, "query": query, "headers": header});
        executor(spec, client.clone())
    };
    let everywhere = full(json!({"x-a": "{a}"}), "/p/{a}/end?u={a}&g={missing}");
    let (no_header, no_path) = (full(json!({}), "/p/{a}/end?u={a}"), full(json!({"x-a": "{a}"}), "/p/-/end?u={a}"));
    let neither = full(json!({}), "/p/-/end?u={a}");

    let mut runner =
        TestRunner::new(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() });
    runner
        .run(&texts(), |text| {
            // Texts that the path cannot carry must be rejected there, and are sent in all other places.
            let in_path = !matches!(text.as_str(), "" | "." | "..");
            let in_header =
                !text.chars().any(|c| c.is_ascii_control() && c != '\t') && text.trim_matches([' ', '\t']) == text;
            let executor = match (in_path, in_header) {
                (true, true) => &everywhere,
                (true, false) => &no_header,
                (false, true) => &no_path,
                (false, false) => &neither,
            };
            let arguments = json!({"a": text});
            if !(in_path && in_header) {
                let refused = runtime.block_on(everywhere.execute(invocation(arguments.clone()))).unwrap_err();
                prop_assert_eq!(&refused.details.unwrap()["request_sent"], &json!(false));
            }
            prop_assert_eq!(runtime.block_on(executor.execute(invocation(arguments))), Ok(ToolOutput::Nothing));
            let request = runtime.block_on(received.borrow_mut().recv()).unwrap();

            let (path, query) = request.target.split_once('?').unwrap();
            let segments: Vec<&str> = path.split('/').collect();
            prop_assert_eq!(segments.len(), 4);
            prop_assert_eq!(decoded(segments[2]), if in_path { text.as_str() } else { "-" });
            let pairs: Vec<String> = query.split('&').map(decoded).collect();
            prop_assert_eq!(pairs, [format!("u={text}"), format!("q={text}")]);
            prop_assert_eq!(request.header("x-a"), in_header.then_some(text.as_bytes()));
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            prop_assert_eq!(body, json!({"exact": text, "within": format!("<{text}>")}));
            Ok(())
        })
        .unwrap();
}

proptest! {
    #[test]
    fn lone_placeholder_keeps_any_value(number in any::<i64>(), double in any::<f64>(), flag in any::<bool>(), text in any::<String>()) {
        let value = json!({"n": number, "d": double, "f": flag, "t": [text, null]});
        let mut faults = Vec::new();
        let template = super::super::body::JsonTemplate::parse(&json!(["{v}"]), "", &mut faults);
        let arguments = json!({"v": value});
        prop_assert_eq!(template.render(arguments.as_object().unwrap()), Some(json!([value])));
    }
}
