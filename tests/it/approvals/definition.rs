//! The member `approval` of a definition.

use serde_json::json;

use crate::support::shapes::points_at;
use crate::support::{App, Backend};

#[tokio::test(flavor = "multi_thread")]
async fn approval_members_are_checked_and_shown() {
    let app = App::start(Backend::Sqlite).await;
    let tool = |approval| {
        json!({"name": "t", "description": "", "input_schema": {"type": "object"},
        "executor": {"type": "builtin", "name": "echo"}, "approval": approval})
    };
    for (approval, pointer) in [
        (json!({"expires_ms": 0}), "/approval/expires_ms"),
        (json!({"expires_ms": 2_592_000_001_u64}), "/approval/expires_ms"),
        (json!({"min_approvals": 0}), "/approval/min_approvals"),
        (json!({"min_approvals": 21}), "/approval/min_approvals"),
        (json!({"notify_url": "ftp://x"}), "/approval/notify_url"),
        (json!({"by": "me"}), "/approval/by"),
        (json!(true), "/approval"),
    ] {
        points_at(&app.post("/tools", &tool(approval)).await.problem(422), pointer);
    }
    assert_eq!(app.post("/tools", &tool(json!({"min_approvals": 2}))).await.status, 201);
    let shown = app.get("/tools/t").await.ok();
    let expected = json!({"required": true, "expires_ms": 3_600_000, "min_approvals": 2, "notify_url": null});
    assert_eq!(shown["approval"], expected);
}
