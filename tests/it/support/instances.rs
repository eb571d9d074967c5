//! Tools whose factories record the instances that they create and dispose of.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use toolpost::tool::{BuiltinTool, DefinitionBuilder, InstanceScope, Run, Tool, ToolError, ToolFactory};

use super::bounded;

/// A log of events in order, with a gate. Cheap to clone.
#[derive(Clone)]
pub struct Diary {
    entries: Arc<watch::Sender<Vec<String>>>,
    gate: Arc<watch::Sender<bool>>,
}

impl Diary {
    pub fn new() -> Self {
        Self { entries: Arc::new(watch::channel(Vec::new()).0), gate: Arc::new(watch::channel(false).0) }
    }

    fn note(&self, entry: String) {
        self.entries.send_modify(|entries| entries.push(entry));
    }

    /// Returns all entries so far.
    pub fn entries(&self) -> Vec<String> {
        self.entries.borrow().clone()
    }

    /// Waits until the log has this entry.
    pub async fn has(&self, entry: &str) {
        let mut entries = self.entries.subscribe();
        bounded(entry, entries.wait_for(|entries| entries.iter().any(|noted| noted == entry))).await.unwrap();
    }

    /// Opens the gate for current and later waiters.
    pub fn open(&self) {
        self.gate.send_replace(true);
    }

    async fn opened(&self) {
        let _ = self.gate.subscribe().wait_for(|open| *open).await;
    }

    /// Returns the tools `per_call`, `per_session` and `shared`.
    pub fn tools(&self) -> Vec<BuiltinTool> {
        vec![
            BuiltinTool::from_factory(Maker::<0>(self.clone())),
            BuiltinTool::from_factory(Maker::<1>(self.clone())),
            BuiltinTool::from_factory(Maker::<2>(self.clone())),
        ]
    }
}

/// Behavior that a call requests: `fails`, `panics` or `waits` at the gate.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wishes {
    /// Behavior on creation of the instance.
    #[allow(dead_code)]
    make: Option<String>,
    /// Behavior on disposal of the instance.
    #[allow(dead_code)]
    dispose: Option<String>,
    /// Behavior in the call; `flaky` fails in its first attempt.
    call: Option<String>,
}

struct DiaryTool<const SCOPE: u8> {
    number: usize,
    dispose: String,
    diary: Diary,
}

struct Maker<const SCOPE: u8>(Diary);

impl Diary {
    async fn granted(&self, wish: &str, run: Option<&Run>) -> Result<(), ToolError> {
        match wish {
            "fails" => Err("as you wish".into()),
            "panics" => panic!("as you wish"),
            "flaky" if run.is_some_and(|run| run.attempt() == 1) => Err(ToolError::new("not yet").retryable()),
            "waits" => {
                self.opened().await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl<const SCOPE: u8> Tool for DiaryTool<SCOPE> {
    const NAME: &'static str = ["per_call", "per_session", "shared"][SCOPE as usize];
    type Args = Wishes;
    type Output = String;

    async fn call(&self, args: Wishes, run: Run) -> Result<String, ToolError> {
        self.diary.note(format!("{} {} called", Self::NAME, self.number));
        self.diary.granted(&args.call.unwrap_or_default(), Some(&run)).await?;
        Ok(self.number.to_string())
    }
}

impl<const SCOPE: u8> ToolFactory for Maker<SCOPE> {
    type Tool = DiaryTool<SCOPE>;
    const SCOPE: InstanceScope = [InstanceScope::Call, InstanceScope::Session, InstanceScope::Shared][SCOPE as usize];

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about.description("Says which instance it is.").idempotent().concurrency_safe(true)
    }

    async fn create(&self, run: Run) -> Result<DiaryTool<SCOPE>, ToolError> {
        let wish = |name: &str| run.arguments()[name].as_str().unwrap_or_default().to_owned();
        let (name, begun) = (DiaryTool::<SCOPE>::NAME, self.0.entries());
        self.0.note(format!("{name} begun"));
        self.0.granted(&wish("make"), None).await?;
        let number = begun.iter().filter(|entry| entry.starts_with(name) && entry.contains("made")).count() + 1;
        self.0.note(format!("{name} {number} made for {}", run.session().unwrap_or("nobody")));
        Ok(DiaryTool { number, dispose: wish("dispose"), diary: self.0.clone() })
    }

    async fn dispose(&self, tool: DiaryTool<SCOPE>) -> Result<(), ToolError> {
        self.0.note(format!("{} {} disposed", DiaryTool::<SCOPE>::NAME, tool.number));
        self.0.granted(&tool.dispose, None).await
    }
}

/// Returns the entries that contain `what`.
pub fn filter_entries(entries: &[String], what: &str) -> Vec<String> {
    entries.iter().filter(|entry| entry.contains(what)).cloned().collect()
}

/// Builds a definition that runs one of the tools under another name.
pub fn alias(name: &str, builtin: &str, description: &str) -> Value {
    serde_json::json!({
        "name": name, "description": description, "concurrency_safe": true,
        "executor": {"type": "builtin", "name": builtin},
    })
}
