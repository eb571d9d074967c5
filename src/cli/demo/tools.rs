//! The tools of the demo: what an agent of a small shop would have.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::Builder;
use crate::domain::ApprovalSpec;
use crate::tool::{BuiltinTool, DefinitionBuilder, Json, Run, Tool, ToolError};

/// Adds the tools to a service.
pub fn add(builder: Builder) -> Builder {
    let sending = [
        BuiltinTool::new(SendEmail),
        BuiltinTool::new(RefundPayment),
        BuiltinTool::new(IssueVoucher),
        BuiltinTool::new(SalesReport),
    ];
    let reading = [BuiltinTool::new(Weather), BuiltinTool::new(SearchOrders), BuiltinTool::new(StockLevel)];
    sending.into_iter().chain(reading).fold(builder, Builder::tool)
}

/// Returns the current weather of a city.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct City {
    /// The name of the city, such as `Paris`.
    city: String,
    /// The unit of the temperature.
    #[serde(default)]
    unit: Unit,
}

#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Celsius,
    Fahrenheit,
}

/// Numbers that look measured: the same text gives the same number.
fn number_of(text: &str, below: u64) -> u64 {
    text.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % below.max(1)
}

async fn take(run: &Run, ms: u64) {
    let spread = number_of(run.call_id(), ms / 3 + 1);
    tokio::time::sleep(Duration::from_millis(ms + spread)).await;
}

struct Weather;

impl Tool for Weather {
    const NAME: &'static str = "get_weather";
    type Args = City;
    type Output = Json<serde_json::Value>;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about.title("Current weather").read_only()
    }

    async fn call(&self, args: City, run: Run) -> Result<Self::Output, ToolError> {
        take(&run, 60).await;
        let celsius = number_of(&args.city, 35);
        let (degrees, unit) = match args.unit {
            Unit::Celsius => (celsius, "°C"),
            Unit::Fahrenheit => (celsius * 9 / 5 + 32, "°F"),
        };
        let sky = ["clear", "cloudy", "light rain", "windy"][number_of(&args.city, 4) as usize];
        Ok(Json(serde_json::json!({"city": args.city, "temperature": degrees, "unit": unit, "sky": sky})))
    }
}

/// Finds orders of customers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OrderQuery {
    /// Words of the customer's name or of a product.
    query: String,
    /// Only orders in one of these states.
    #[serde(default)]
    states: Vec<OrderState>,
    /// Maximum number of orders.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: u32,
}

fn ten() -> u32 {
    10
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OrderState {
    Open,
    Paid,
    Shipped,
    Returned,
}

struct SearchOrders;

impl Tool for SearchOrders {
    const NAME: &'static str = "search_orders";
    type Args = OrderQuery;
    type Output = Json<serde_json::Value>;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about.title("Search orders").read_only().closed_world()
    }

    async fn call(&self, args: OrderQuery, run: Run) -> Result<Self::Output, ToolError> {
        take(&run, 120).await;
        let found = number_of(&args.query, 5).min(args.limit.into());
        let order = |number: u64| {
            let state = args.states.first().copied().unwrap_or(OrderState::Paid);
            serde_json::json!({"id": format!("A-{}", 1000 + number_of(&args.query, 900) + number), "customer": args.query,
                "state": state, "total": 1990 + number * 450})
        };
        Ok(Json(serde_json::json!({"orders": (0..found).map(order).collect::<Vec<_>>()})))
    }
}

/// Sends an e-mail to a customer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Email {
    /// The address of the recipient.
    #[schemars(email)]
    to: String,
    /// The subject.
    #[schemars(length(min = 1, max = 200))]
    subject: String,
    /// The text, without formatting.
    body: String,
}

struct SendEmail;

impl Tool for SendEmail {
    const NAME: &'static str = "send_email";
    type Args = Email;
    type Output = String;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about.title("Send an e-mail")
    }

    async fn call(&self, args: Email, run: Run) -> Result<Self::Output, ToolError> {
        take(&run, 250).await;
        if args.to.ends_with("@bounce.example") {
            return Err(ToolError::new(format!("the mail server refused {}: 550 no such mailbox", args.to)));
        }
        Ok(format!(
            "Sent \"{}\" to {} ({} characters). Nothing leaves this demo.",
            args.subject,
            args.to,
            args.body.len()
        ))
    }
}

/// Pays money back for an order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Refund {
    /// The number of the order, such as `A-1042`.
    #[schemars(regex(pattern = "^A-[0-9]{4}$"))]
    order: String,
    /// The amount in cents.
    #[schemars(range(min = 1, max = 100_000))]
    cents: u32,
    /// Why the money is paid back.
    reason: String,
}

struct RefundPayment;

impl Tool for RefundPayment {
    const NAME: &'static str = "refund_payment";
    type Args = Refund;
    type Output = Json<serde_json::Value>;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        // A policy decides which refunds need approval.
        with_approval(about.title("Refund a payment"), false)
    }

    async fn call(&self, args: Refund, run: Run) -> Result<Self::Output, ToolError> {
        take(&run, 400).await;
        if args.cents > 50_000 {
            return Err(ToolError::new("the payment provider declined: the amount exceeds what was paid"));
        }
        let id = format!("re_{:06}", number_of(&args.order, 1_000_000));
        Ok(Json(serde_json::json!({"refund": id, "order": args.order, "cents": args.cents, "reason": args.reason})))
    }
}

/// Time for a decision. It keeps the list of approvals short while the demo runs.
const APPROVAL_EXPIRES_MS: u64 = 600_000;

fn with_approval(about: DefinitionBuilder, required: bool) -> DefinitionBuilder {
    let mut definition = about.into_definition();
    definition.approval = Some(ApprovalSpec { required, expires_ms: APPROVAL_EXPIRES_MS, ..ApprovalSpec::default() });
    definition.into()
}

/// Sends a voucher to a customer. A person approves each one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Voucher {
    /// The name of the customer.
    customer: String,
    /// The value in cents.
    #[schemars(range(min = 100, max = 20_000))]
    cents: u32,
    /// Why the customer gets it.
    occasion: String,
}

struct IssueVoucher;

impl Tool for IssueVoucher {
    const NAME: &'static str = "issue_voucher";
    type Args = Voucher;
    type Output = Json<serde_json::Value>;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        with_approval(about.title("Issue a voucher"), true)
    }

    async fn call(&self, args: Voucher, run: Run) -> Result<Self::Output, ToolError> {
        take(&run, 200).await;
        let code = format!("V-{:05}", number_of(&args.customer, 100_000));
        Ok(Json(serde_json::json!({"voucher": code, "cents": args.cents, "occasion": args.occasion})))
    }
}

/// Adds up the sales of a period. It takes some seconds and reports its progress.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Period {
    /// The number of days.
    #[schemars(range(min = 1, max = 31))]
    days: u32,
}

struct SalesReport;

impl Tool for SalesReport {
    const NAME: &'static str = "sales_report";
    type Args = Period;
    type Output = String;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about.title("Sales report").read_only().closed_world()
    }

    async fn call(&self, args: Period, run: Run) -> Result<Self::Output, ToolError> {
        let mut lines = vec!["day | orders | revenue".to_owned(), "--- | ---: | ---:".to_owned()];
        for day in 1..=args.days {
            tokio::time::sleep(Duration::from_millis(350)).await;
            run.progress(day, args.days, format!("day {day} of {}", args.days));
            let orders = 20 + number_of(&format!("day{day}"), 40);
            lines.push(format!("{day} | {orders} | {:.2}", orders as f64 * 37.45));
        }
        Ok(lines.join("\n"))
    }
}

/// Asks the warehouse how many pieces of a product are in stock.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Product {
    /// The number of the product.
    sku: String,
}

struct StockLevel;

impl Tool for StockLevel {
    const NAME: &'static str = "stock_level";
    type Args = Product;
    type Output = Json<serde_json::Value>;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about.title("Stock level").read_only()
    }

    async fn call(&self, args: Product, run: Run) -> Result<Self::Output, ToolError> {
        take(&run, 90).await;
        match number_of(&args.sku, 6) {
            0 => Err(ToolError::new("the warehouse did not answer: connection reset")),
            number => Ok(Json(serde_json::json!({"sku": args.sku, "pieces": number * 7}))),
        }
    }
}
