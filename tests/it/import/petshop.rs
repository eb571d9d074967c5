//! Calls of every operation of the pet shop, checked against the request that the document describes.
//!
//! The document is written for this test. The original has the same operations; `TOOLPOST_PETSTORE=FILE` tests it
//! instead.

use serde_json::{Value, json};

use super::{app_and_server, import, names};
use crate::support::fixture::project_file;
use crate::support::shapes::succeeded;

/// A call and its expected request: tool, arguments, method, target, type of the body, body.
type Case = (&'static str, Value, &'static str, &'static str, &'static str, Value);

fn cases() -> Vec<Case> {
    let pet =
        json!({"id": 10, "name": "Rex é", "photoUrls": [], "category": {"id": 1, "name": "Dogs"}, "status": "sold"});
    let user = json!({"username": "ann/b", "userStatus": 1});
    let none = Value::Null;
    let json_type = "application/json";
    vec![
        ("updatePet", json!({"body": pet}), "PUT", "/api/v3/pet", json_type, pet.clone()),
        ("addPet", json!({"body": pet}), "POST", "/api/v3/pet", json_type, pet),
        (
            "findPetsByStatus",
            json!({"status": "sold"}),
            "GET",
            "/api/v3/pet/findByStatus?status=sold",
            "",
            none.clone(),
        ),
        ("findPetsByStatus", json!({}), "GET", "/api/v3/pet/findByStatus", "", none.clone()),
        (
            "findPetsByTags",
            json!({"tags": ["a b", "c&d"]}),
            "GET",
            "/api/v3/pet/findByTags?tags=a%20b&tags=c%26d",
            "",
            none.clone(),
        ),
        ("findPetsByTags", json!({}), "GET", "/api/v3/pet/findByTags", "", none.clone()),
        ("getPetById", json!({"petId": 7}), "GET", "/api/v3/pet/7", "", none.clone()),
        (
            "updatePetWithForm",
            json!({"petId": 7, "name": "Leo & co"}),
            "POST",
            "/api/v3/pet/7?name=Leo%20%26%20co",
            "",
            none.clone(),
        ),
        ("deletePet", json!({"petId": 7, "api_key": "given"}), "DELETE", "/api/v3/pet/7", "", none.clone()),
        (
            "uploadFile",
            json!({"petId": 7, "body": "aGVsbG8=", "additionalMetadata": "m"}),
            "POST",
            "/api/v3/pet/7/uploadImage?additionalMetadata=m",
            "application/octet-stream",
            json!("hello"),
        ),
        ("getInventory", json!({}), "GET", "/api/v3/store/inventory", "", none.clone()),
        (
            "placeOrder",
            json!({"body": {"petId": 7, "complete": true}}),
            "POST",
            "/api/v3/store/order",
            json_type,
            json!({"petId": 7, "complete": true}),
        ),
        ("placeOrder", json!({}), "POST", "/api/v3/store/order", "", none.clone()),
        ("getOrderById", json!({"orderId": "5"}), "GET", "/api/v3/store/order/5", "", none.clone()),
        ("deleteOrder", json!({"orderId": 5}), "DELETE", "/api/v3/store/order/5", "", none.clone()),
        ("createUser", json!({"body": user}), "POST", "/api/v3/user", json_type, user.clone()),
        (
            "createUsersWithListInput",
            json!({"body": [user, {}]}),
            "POST",
            "/api/v3/user/createWithList",
            json_type,
            json!([user, {}]),
        ),
        (
            "loginUser",
            json!({"username": "ann", "password": "x y"}),
            "GET",
            "/api/v3/user/login?username=ann&password=x%20y",
            "",
            none.clone(),
        ),
        ("logoutUser", json!({}), "GET", "/api/v3/user/logout", "", none.clone()),
        ("getUserByName", json!({"username": "ann/b?"}), "GET", "/api/v3/user/ann%2Fb%3F", "", none.clone()),
        ("updateUser", json!({"username": "ann", "body": user}), "PUT", "/api/v3/user/ann", json_type, user.clone()),
        ("deleteUser", json!({"username": "ann"}), "DELETE", "/api/v3/user/ann", "", none),
    ]
}

fn document() -> String {
    match std::env::var("TOOLPOST_PETSTORE") {
        Ok(file) => std::fs::read_to_string(file).unwrap(),
        Err(_) => super::text("petshop.yaml"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pet_shop_operation_sends_its_documented_request() {
    let (app, server) = app_and_server().await;
    let report = import(&app, json!({"document": document(), "server": server.url("/api/v3")})).await;
    assert_eq!(report["refused"], json!([]));
    let created = names(&report, "created");
    assert_eq!(created.len(), 19);
    let cases = cases();
    assert!(created.iter().all(|tool| cases.iter().any(|case| case.0 == tool)), "every operation is called");
    for (at, (tool, arguments, method, target, content_type, body)) in cases.into_iter().enumerate() {
        succeeded(&app.call(tool, arguments).await);
        let request = server.requests().swap_remove(at);
        assert_eq!((request.method.as_str(), request.target.as_str()), (method, target), "{tool}");
        assert_eq!(request.header("content-type"), content_type, "{tool}");
        assert_eq!(request.header("api_key"), if tool == "deletePet" { "given" } else { "" }, "{tool}");
        match body {
            Value::Null => assert_eq!(request.body, "", "{tool}"),
            Value::String(text) => assert_eq!(request.body, text, "{tool}"),
            body => assert_eq!(request.json(), body, "{tool}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_follow_the_methods() {
    let (app, server) = app_and_server().await;
    import(&app, json!({"document": document(), "server": server.url("")})).await;
    for (tool, read_only, idempotent, destructive) in [
        ("getPetById", true, true, false),
        ("updatePet", false, true, false),
        ("deletePet", false, true, true),
        ("addPet", false, false, false),
    ] {
        let tool_json = app.get(&format!("/tools/{tool}")).await.ok();
        let expected =
            json!({"read_only": read_only, "destructive": destructive, "idempotent": idempotent, "open_world": true});
        assert_eq!((&tool_json["annotations"], &tool_json["tags"]), (&expected, &json!(["pet"])), "{tool}");
        assert!(tool_json["title"].as_str().is_some_and(|title| !title.is_empty()));
    }
}

/// Checks the example of the guide, in which each list is one parameter.
#[tokio::test(flavor = "multi_thread")]
async fn example_sends_what_its_server_requires() {
    let (app, server) = app_and_server().await;
    let example = std::fs::read_to_string(project_file("examples/open_meteo.yaml")).unwrap();
    let report = import(&app, json!({"document": example, "server": server.url("/v1")})).await;
    assert_eq!((&report["refused"], &report["warnings"]), (&json!([]), &json!([])));
    let arguments = json!({"latitude": 52.5, "longitude": "13.4", "current": ["temperature_2m", "cloud_cover"]});
    succeeded(&app.call("get_forecast", arguments).await);
    let target = "/v1/forecast?latitude=52.5&longitude=13.4&current=temperature_2m,cloud_cover";
    assert_eq!(server.request().target, target);
}
