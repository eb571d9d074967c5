//! The calls of the demo, as agents of a small shop would make them. They come over HTTP like any others.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

/// Customers of the shop, in a fixed order.
const CUSTOMERS: [&str; 6] = ["Ada Blum", "Ben Cole", "Chao Li", "Dana Fox", "Eli Stone", "Fay Reed"];
const CITIES: [&str; 6] = ["Paris", "Lima", "Oslo", "Kyoto", "Nairobi", "Quito"];

/// Makes calls at this rate until the task is dropped.
pub async fn make(address: SocketAddr, rate: f64) {
    // The service is on this machine, so no proxy of the environment is between. Its start has created such a client, so
    // this one can be created, too.
    let client = reqwest::Client::builder().no_proxy().build();
    let (Ok(client), true) = (client, rate > 0.0) else { return };
    add_policy(&client, address).await;
    let url = format!("http://{address}/tool-calls");
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    for number in 0_usize.. {
        ticks.tick().await;
        let (client, url) = (client.clone(), url.clone());
        tokio::spawn(async move {
            // The console shows what became of a call.
            if let Err(error) = client.post(url).json(&call(number)).send().await {
                tracing::debug!(%error, "a call of the demo was not answered");
            }
        });
    }
}

/// Creates a policy over the API, which the console can change.
async fn add_policy(client: &reqwest::Client, address: SocketAddr) {
    let policy = json!({"name": "short-reports", "when": "tool.name == 'sales_report' && args.days > 10",
        "effect": "deny", "reason": "Reports of more than 10 days are made at night."});
    if let Err(error) = client.post(format!("http://{address}/policies")).json(&policy).send().await {
        tracing::debug!(%error, "the policy of the demo was not created");
    }
}

/// Returns the call with this number. Every conversation has twelve calls.
fn call(number: usize) -> Value {
    let conversation = number / 12;
    let customer = CUSTOMERS[conversation % CUSTOMERS.len()];
    let (first, _) = customer.split_once(' ').unwrap_or((customer, ""));
    let order = format!("A-{}", 1000 + conversation * 7 % 9000);
    let (name, arguments) = match number % 12 {
        0 => ("search_orders", json!({"query": customer})),
        1 => ("stock_level", json!({"sku": format!("sku-{}", conversation % 40)})),
        2 => ("get_weather", json!({"city": CITIES[conversation % CITIES.len()]})),
        // A model writes numbers as text now and then.
        3 => ("search_orders", json!({"query": customer, "states": ["open"], "limit": "5"})),
        4 => ("refund_payment", json!({"order": order, "cents": 1990, "reason": "arrived broken"})),
        5 => ("sales_report", json!({"days": 1 + conversation % 12})),
        6 => (
            "send_email",
            json!({"to": format!("{}@shop.example", first.to_lowercase()), "subject": "Your refund",
            "body": format!("Dear {first}, the money is on its way.")}),
        ),
        7 => ("stock_level", json!({"sku": format!("sku-{}", conversation % 7)})),
        8 if conversation.is_multiple_of(3) => {
            ("refund_payment", json!({"order": order, "cents": 99_000, "reason": "changed my mind"}))
        }
        8 => ("calculate", json!({"expression": format!("{} * 1.19", 10 + conversation % 90)})),
        9 if conversation.is_multiple_of(2) => ("refund_payment", json!({"order": "unknown", "cents": 0})),
        9 => ("get_weather", json!({"city": CITIES[(conversation + 3) % CITIES.len()], "unit": "fahrenheit"})),
        10 if conversation % 4 == 1 => ("cancel_subscription", json!({"customer": customer})),
        10 if conversation % 4 == 2 => (
            "issue_voucher",
            json!({"customer": customer, "cents": 500 * (1 + conversation % 9), "occasion": "late delivery"}),
        ),
        10 => ("search_orders", json!({"query": first, "states": ["shipped", "returned"]})),
        _ => (
            "send_email",
            json!({"to": format!("{}@bounce.example", first.to_lowercase()), "subject": "A survey",
            "body": "How did we do?"}),
        ),
    };
    json!({"name": name, "arguments": arguments, "session": format!("chat-{}", 1 + conversation)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversation_uses_every_tool() {
        let names: std::collections::BTreeSet<String> =
            (0..48).map(|number| call(number)["name"].as_str().unwrap().to_owned()).collect();
        for name in [
            "get_weather",
            "search_orders",
            "send_email",
            "refund_payment",
            "issue_voucher",
            "sales_report",
            "stock_level",
        ] {
            assert!(names.contains(name), "{name}");
        }
    }
}
