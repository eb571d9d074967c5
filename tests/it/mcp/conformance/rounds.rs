//! Tools with several rounds (SEP-2322): a tool requests input, and the client repeats the call with the answers.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock as Block, InputRequest,
    InputRequests, InputRequiredResult,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::resources::read;
use super::server::ConformanceServer;

type Answer = Result<CallToolResponse, ErrorData>;

impl ConformanceServer {
    /// Returns the next round of a tool with several rounds, or `None` for any other tool.
    pub fn round(&self, request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Option<Answer> {
        let name = request.name.strip_prefix("test_input_required_result_")?;
        let answers = request.input_responses.clone().unwrap_or_default();
        let answer = |key: &str| answers.get(key).cloned().unwrap_or_default();
        let name_of = |key: &str| answer(key)["content"]["name"].as_str().map(str::to_owned);
        let confirm = || elicitation("Please confirm", "ok", "boolean");
        Some(match name {
            "elicitation" => match name_of("user_name") {
                Some(name) => text_answer(&format!("Hello, {name}!")),
                None => input_required([("user_name", elicitation("What is your name?", "name", "string"))], None),
            },
            "sampling" => match answer("capital_question")["content"]["text"].as_str() {
                Some(text) => text_answer(text),
                None => input_required([("capital_question", sampling("What is the capital of France?", 100))], None),
            },
            "list_roots" => match answer("client_roots")["roots"].as_array() {
                Some(roots) => text_answer(&format!("Roots: {}", Value::Array(roots.clone()))),
                None => input_required([("client_roots", roots())], None),
            },
            "request_state" | "tampered_state" => match &request.request_state {
                None => input_required([("confirm", confirm())], Some(self.sealed(name))),
                Some(state) => self.opened(state, name).and_then(|()| text_answer("state-ok")),
            },
            "multiple_inputs" => match &request.request_state {
                None => input_required(
                    [
                        ("user_name", elicitation("What is your name?", "name", "string")),
                        ("greeting", sampling("Generate a greeting", 50)),
                        ("client_roots", roots()),
                    ],
                    Some(self.sealed(name)),
                ),
                Some(state) => self.opened(state, name).and_then(|()| text_answer("All answers are here.")),
            },
            "multi_round" => self.of_many(request.request_state.as_deref()),
            "capabilities" => capabilities(&context.client_capabilities().unwrap_or_default()),
            _ => return None,
        })
    }

    fn of_many(&self, state: Option<&str>) -> Answer {
        let Some(state) = state else {
            let question = elicitation("Step 1: What is your name?", "name", "string");
            return input_required([("step1", question)], Some(self.sealed("round-1")));
        };
        if self.opened(state, "round-1").is_ok() {
            let question = elicitation("Step 2: What is your favorite color?", "color", "string");
            return input_required([("step2", question)], Some(self.sealed("round-2")));
        }
        self.opened(state, "round-2").and_then(|()| text_answer("Both steps are done."))
    }

    /// Signs a state, so that only this service can create it.
    fn sealed(&self, state: &str) -> String {
        format!("{state}.{}", self.key.signature("mcp request state", 0, state.as_bytes()))
    }

    fn opened(&self, given: &str, state: &str) -> Result<(), ErrorData> {
        if given == self.sealed(state) {
            return Ok(());
        }
        Err(ErrorData::invalid_params("the request state is none of this server", None))
    }
}

/// Requests only input that the client supports.
fn capabilities(client: &ClientCapabilities) -> Answer {
    let can = serde_json::to_value(client).unwrap_or_default();
    let sampling = can.get("sampling").map(|_| ("question", sampling("What is the capital of France?", 100)));
    let elicited = can.get("elicitation").map(|_| ("user_name", elicitation("What is your name?", "name", "string")));
    let questions: Vec<_> = sampling.into_iter().chain(elicited).collect();
    if questions.is_empty() { text_answer("The client can answer nothing.") } else { input_required(questions, None) }
}

fn text_answer(text: &str) -> Answer {
    Ok(CallToolResult::success(vec![Block::text(text)]).into())
}

fn input_required(questions: impl IntoIterator<Item = (&'static str, Value)>, state: Option<String>) -> Answer {
    Ok(ask(questions, state)?.into())
}

/// Builds the result that requests input from the client.
pub fn ask(
    questions: impl IntoIterator<Item = (&'static str, Value)>,
    state: Option<String>,
) -> Result<InputRequiredResult, ErrorData> {
    let read_one = |(key, question): (&str, Value)| Ok((key.to_owned(), read::<InputRequest>(question)?));
    let questions = questions.into_iter().map(read_one).collect::<Result<InputRequests, ErrorData>>()?;
    Ok(InputRequiredResult::new(Some(questions), state))
}

/// Builds a question to the user with one field.
pub fn elicitation(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn sampling(text: &str, max_tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}
