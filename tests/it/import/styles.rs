//! Parameters of every style, and credentials, as the server receives them.

use serde_json::{Value, json};

use toolpost::executor::Secrets;

use super::{app_and_server, import, names, of_paths};
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend, HttpTool, Options};

fn parameter(name: &str, location: &str, style: Value, schema: Value) -> Value {
    let mut parameter = json!({"name": name, "in": location, "schema": schema, "required": location == "path"});
    parameter.as_object_mut().unwrap().extend(style.as_object().unwrap().clone());
    parameter
}

/// Checks the style examples of the specification (3.1, Parameter Object), where it has one.
#[tokio::test(flavor = "multi_thread")]
async fn arrays_and_objects_arrive_in_the_style_of_their_parameter() {
    let array = json!({"type": "array", "items": {"type": "string"}});
    let object = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let (colors, rgb) = (json!(["blue", "black", "brown"]), json!({"R": 100, "G": 200, "B": 150}));
    let cases = [
        ("path", json!({}), &array, "/x/blue,black,brown"),
        ("path", json!({"explode": true}), &object, "/x/R=100,G=200,B=150"),
        ("path", json!({}), &object, "/x/R,100,G,200,B,150"),
        ("path", json!({"style": "label"}), &array, "/x/.blue,black,brown"),
        ("path", json!({"style": "label", "explode": true}), &array, "/x/.blue.black.brown"),
        ("path", json!({"style": "label", "explode": true}), &object, "/x/.R=100.G=200.B=150"),
        ("path", json!({"style": "matrix"}), &array, "/x/;color=blue,black,brown"),
        ("path", json!({"style": "matrix"}), &object, "/x/;color=R,100,G,200,B,150"),
        ("query", json!({}), &array, "/x?color=blue&color=black&color=brown"),
        ("query", json!({"explode": false}), &array, "/x?color=blue,black,brown"),
        ("query", json!({}), &object, "/x?R=100&G=200&B=150"),
        ("query", json!({"explode": false}), &object, "/x?color=R,100,G,200,B,150"),
        ("query", json!({"style": "spaceDelimited"}), &array, "/x?color=blue%20black%20brown"),
        ("query", json!({"style": "pipeDelimited"}), &array, "/x?color=blue%7Cblack%7Cbrown"),
        ("query", json!({"style": "pipeDelimited", "explode": true}), &array, "/x?color=blue&color=black&color=brown"),
        (
            "query",
            json!({"style": "deepObject", "explode": true}),
            &object,
            "/x?color[R]=100&color[G]=200&color[B]=150",
        ),
        ("header", json!({}), &array, "blue,black,brown"),
        ("header", json!({"explode": true}), &object, "R=100,G=200,B=150"),
        ("cookie", json!({"explode": false}), &array, "color=blue,black,brown"),
        ("cookie", json!({}), &array, "color=blue; color=black; color=brown"),
    ];
    let mut paths = json!({});
    for (at, (location, style, schema, _)) in cases.iter().enumerate() {
        let path = if *location == "path" { format!("/{at}/x/{{color}}") } else { format!("/{at}/x") };
        let parameters = [parameter("color", location, style.clone(), (*schema).clone())];
        paths[path] = json!({"get": {"operationId": format!("t{at}"), "parameters": parameters}});
    }
    let (app, server) = app_and_server().await;
    let report = import(&app, json!({"document": of_paths(paths), "server": server.url("")})).await;
    assert_eq!((&report["refused"], &report["warnings"]), (&json!([]), &json!([])));
    for (at, (location, style, schema, expected)) in cases.iter().enumerate() {
        let value = if *schema == &array { &colors } else { &rgb };
        succeeded(&app.call(&format!("t{at}"), json!({"color": value})).await);
        let request = server.requests().swap_remove(at);
        let found = match *location {
            "header" => request.header("color").to_owned(),
            "cookie" => request.header("cookie").to_owned(),
            _ => request.target.strip_prefix(&format!("/{at}")).unwrap().to_owned(),
        };
        assert_eq!(found, *expected, "{location} {style}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn optional_absent_arguments_are_not_sent() {
    let optional =
        |name: &str, location: &str| parameter(name, location, json!({}), json!({"type": "string", "default": "d"}));
    let parameters =
        [optional("q", "query"), optional("X-H", "header"), optional("c", "cookie"), optional("d", "cookie")];
    let body = json!({"content": {"application/vnd.x+json": {"schema": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}}}});
    let paths = json!({"/x": {"get": {"operationId": "read", "parameters": parameters},
        "patch": {"operationId": "change", "requestBody": body}}});
    let (app, server) = app_and_server().await;
    import(&app, json!({"document": of_paths(paths), "server": server.url("")})).await;
    succeeded(&app.call("read", json!({})).await);
    succeeded(&app.call("read", json!({"q": null, "X-H": "h", "d": "é;"})).await);
    succeeded(&app.call("change", json!({})).await);
    succeeded(&app.call("change", json!({"body": {}})).await);
    let requests = server.requests();
    assert_eq!((requests[0].target.as_str(), requests[0].header("x-h"), requests[0].header("cookie")), ("/x", "", ""));
    assert_eq!(
        (requests[1].target.as_str(), requests[1].header("x-h"), requests[1].header("cookie")),
        ("/x", "h", "d=%C3%A9%3B")
    );
    assert_eq!((requests[2].body.as_str(), requests[2].header("content-type")), ("", ""));
    assert_eq!((requests[3].body.as_str(), requests[3].header("content-type")), ("{}", "application/vnd.x+json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_text_and_bytes_arrive_as_their_media_type() {
    let body = |media_type: &str, schema: Value| json!({"requestBody": {"required": true, "content": {media_type: {"schema": schema}}}});
    let fields = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "more": {"type": "object"}}});
    let with = |id: &str, mut operation: Value| {
        operation["operationId"] = id.into();
        json!({"post": operation})
    };
    let mut form = with("form", body("application/x-www-form-urlencoded", fields));
    form["post"]["parameters"] = json!([{"name": "id", "in": "query", "schema": {"type": "string"}}]);
    let paths = json!({"/form": form, "/xml": with("xml", body("application/xml", json!({"type": "object"}))),
        "/png": with("png", body("image/png", json!({}))), "/none": with("none", json!({}))});
    let (app, server) = app_and_server().await;
    import(&app, json!({"document": of_paths(paths), "server": server.url("")})).await;
    for (tool, arguments, target, content_type, body) in [
        (
            "form",
            json!({"id": "q", "form_id": "f&", "tags": ["a", "b c"], "more": {"k": 1}}),
            "/form?id=q",
            "application/x-www-form-urlencoded",
            "id=f%26&tags=a&tags=b%20c&more=%7B%22k%22%3A1%7D",
        ),
        ("xml", json!({"body": "<a>é</a>"}), "/xml", "application/xml", "<a>é</a>"),
        ("png", json!({"body": "aGVsbG8="}), "/png", "image/png", "hello"),
        ("none", json!({}), "/none", "", ""),
    ] {
        succeeded(&app.call(tool, arguments).await);
        let request = server.requests().pop().unwrap();
        assert_eq!(
            (request.target.as_str(), request.header("content-type"), request.body.as_str()),
            (target, content_type, body)
        );
    }
    let wrong = app.call("png", json!({"body": "no base64!"})).await;
    assert_eq!(wrong["status"], "ERROR");
    assert!(wrong["output"].as_str().unwrap().contains("is not base64"), "{wrong}");
}

/// Checks fields as in the documents of Twilio: `Metadata` and `RateLimits` have no type.
#[tokio::test(flavor = "multi_thread")]
async fn untyped_form_fields_are_sent_as_they_are() {
    let fields = json!({"type": "object", "properties": {"To": {"type": "string"}, "Metadata": {}, "RateLimits": {},
        "Tags": {"type": "array", "items": {}}, "Any": {"type": "array"}, "Either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "More": {"type": "object"}}});
    let body = json!({"content": {"application/x-www-form-urlencoded": {"schema": fields}}});
    let paths = json!({"/form": {"post": {"operationId": "form", "requestBody": body}}});
    let (app, server) = app_and_server().await;
    import(&app, json!({"document": of_paths(paths), "server": server.url("")})).await;
    for (arguments, body) in [
        (json!({"To": "a", "Metadata": "x y", "RateLimits": 5}), "To=a&Metadata=x%20y&RateLimits=5"),
        (json!({"Metadata": {"k": "v"}, "RateLimits": true}), "Metadata=%7B%22k%22%3A%22v%22%7D&RateLimits=true"),
        (json!({"Metadata": ["a", 1, {"k": 2}]}), "Metadata=a&Metadata=1&Metadata=%7B%22k%22%3A2%7D"),
        (json!({"Tags": ["a", "b"], "Any": ["c"]}), "Tags=a&Tags=b&Any=c"),
        (json!({"Either": "a"}), "Either=a"),
        (json!({"Either": ["a", "b"]}), "Either=a&Either=b"),
        (json!({"More": {"k": [1]}}), "More=%7B%22k%22%3A%5B1%5D%7D"),
    ] {
        succeeded(&app.call("form", arguments.clone()).await);
        assert_eq!(server.requests().pop().unwrap().body, body, "{arguments}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_sent_as_parts_of_a_multipart_body() {
    let fields = json!({"type": "object", "required": ["file"], "properties": {
        "file": {"type": "string", "format": "binary", "description": "The picture."},
        "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "title": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "meta": {"type": "object"}}});
    let encoding = json!({"file": {"contentType": "image/png"}});
    let body = json!({"required": true, "content": {"multipart/form-data": {"schema": fields, "encoding": encoding}}});
    let paths = json!({"/upload": {"post": {"operationId": "upload", "requestBody": body}}});
    let (app, server) = app_and_server().await;
    let report = import(&app, json!({"document": of_paths(paths), "server": server.url("")})).await;
    assert_eq!(names(&report, "created"), ["upload"], "{report}");
    let shown = app.get("/tools/upload").await.ok();
    assert_eq!(shown["input_schema"]["properties"]["file"]["required"], json!(["filename", "content_base64"]));
    let arguments = json!({"file": {"filename": "a \"b\".png", "content_base64": "aGVsbG8="}, "title": "é",
        "more": [{"filename": "c.txt", "content_base64": "eA==", "content_type": "text/plain"}],
        "tags": ["x", "y"], "meta": {"k": 1}});
    succeeded(&app.call("upload", arguments).await);
    let request = server.requests().pop().unwrap();
    let boundary = request.header("content-type").strip_prefix("multipart/form-data; boundary=").unwrap();
    let parts: Vec<&str> = request.body.split(&format!("--{boundary}")).map(str::trim_start).collect();
    assert_eq!((parts.first(), parts.last()), (Some(&""), Some(&"--\r\n")));
    for part in [
        "name=\"file\"; filename=\"a %22b%22.png\"\r\nContent-Type: image/png\r\n\r\nhello\r\n",
        "name=\"more\"; filename=\"c.txt\"\r\nContent-Type: text/plain\r\n\r\nx\r\n",
        "name=\"title\"\r\n\r\né\r\n",
        "name=\"tags\"\r\n\r\nx\r\n",
        "name=\"tags\"\r\n\r\ny\r\n",
        "name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"k\":1}\r\n",
    ] {
        let part = format!("Content-Disposition: form-data; {part}");
        assert!(parts.contains(&part.as_str()), "{part:?} is not in {parts:#?}");
    }
    let missing = app.call("upload", json!({"title": "t"})).await;
    assert_eq!(missing["error"]["code"], "TOOL_VALIDATION_ERROR", "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_sent_as_declared_and_never_shown() {
    let server = HttpTool::answering(Answer::json(&json!({}))).await;
    let secrets = Secrets::new(|name| (name == "IMPORT_KEY").then(|| "s3&cret".to_owned()));
    let egress_allow = vec!["127.0.0.1".into()];
    let app =
        App::start_with(Backend::Sqlite, Options { secrets: Some(secrets), egress_allow, ..Options::default() }).await;
    let mut document = of_paths(json!({
        "/key": {"get": {"operationId": "key", "security": [{"key": []}], "parameters": [{"name": "X-Key", "in": "header", "schema": {"type": "string"}}]}},
        "/open": {"get": {"operationId": "open", "security": []}},
        "/sid": {"get": {"operationId": "sid", "security": [{"sid": [], "query": []}]}},
        "/token": {"get": {"operationId": "token"}},
        "/other": {"get": {"operationId": "other", "security": [{"flow": []}]}}}));
    document["security"] = json!([{"token": []}]);
    document["components"]["securitySchemes"] = json!({"key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "sid": {"type": "apiKey", "in": "cookie", "name": "sid"}, "query": {"type": "apiKey", "in": "query", "name": "k"},
        "token": {"type": "http", "scheme": "basic"}, "flow": {"type": "oauth2"}});
    let auth = ["header:x-key:IMPORT_KEY", "cookie:sid:IMPORT_KEY", "query:k:IMPORT_KEY", "basic:ann:NOT_SET"];
    let report = import(&app, json!({"document": document, "server": server.url(""), "auth": auth})).await;
    assert_eq!(names(&report, "created").len(), 5);
    let warnings = report["warnings"].as_array().unwrap();
    let warned: Vec<&Value> = warnings.iter().map(|one| &one["operation"]).collect();
    assert_eq!(warned, ["GET /other"], "{report}");
    let shown = app.get("/tools/key").await.ok();
    assert_eq!(shown["input_schema"]["properties"], json!({}));
    assert_eq!(shown["presets"]["auth_x-key"]["secret"], "IMPORT_KEY");
    succeeded(&app.call("open", json!({})).await);
    succeeded(&app.call("key", json!({"auth_x-key": "of the model"})).await);
    succeeded(&app.call("sid", json!({})).await);
    let requests = server.requests();
    assert_eq!(
        (requests[0].header("x-key"), requests[0].header("cookie"), requests[0].header("authorization")),
        ("", "", "")
    );
    assert_eq!(requests[1].header("x-key"), "s3&cret");
    assert_eq!((requests[2].header("cookie"), requests[2].target.as_str()), ("sid=s3&cret", "/sid?k=s3%26cret"));
    // The secret is not set, so no request is sent.
    let unset = app.call("token", json!({})).await;
    assert!(unset["output"].as_str().unwrap().contains("TOOLPOST_SECRET_NOT_SET"), "{unset}");
    assert_eq!(server.requests().len(), 3);
}
