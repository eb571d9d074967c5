//! Arbitrary messages of the Model Context Protocol: the fast path answers as rmcp does, or leaves them to it.

use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::driver::Target;
use crate::mcp::{BothWays, Case};

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_answered_alike_on_both_ways() {
    let ways = BothWays::start(|_| {}).await;
    let take = |input: &[u8]| {
        let case = Case::with_body(input);
        let compared = async {
            let Some(fast) = ways.by_fast_path(&case).await else { return Ok(()) };
            let slow = ways.by_rmcp(&case).await;
            if fast == slow { Ok(()) } else { Err(format!("fast path: {fast:?}\nrmcp: {slow:?}")) }
        };
        block_in_place(|| Handle::current().block_on(compared))
    };
    let words = &[
        "\"id\":1,",
        "\"jsonrpc\":\"2.0\",",
        "\"method\":\"tools/list\",",
        "\"params\":{},",
        "\"name\":\"echo\",",
        "\"arguments\":{},",
        "\"_meta\":{},",
        "\"progressToken\":1,",
        "\"cursor\":\"YQ\",",
        "\"x\":{},",
        "null",
        "1e2",
        "-0",
        "18446744073709551616",
        "1e400",
        "\\ud800",
        "\\u0061",
    ];
    Target { name: "mcp", beside: &[], words, inputs: 400, take }.run();
}
