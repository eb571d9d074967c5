//! The status of a server and its list of tools.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::listed_tool::ListedTool;
use crate::executor::BoxFuture;
use toolpost_core::domain::Time;
use toolpost_core::domain::tool::is_valid_name;
use toolpost_core::formats::alias;

/// Maximum length of a tool name, in bytes.
const MAX_TOOL_NAME: usize = 128;
/// Maximum length of an alias, in bytes.
const MAX_ALIAS: usize = 64;

/// The state of an upstream server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UpstreamState)]
pub enum ServerState {
    /// The server is starting.
    Starting,
    /// The tools of the server can be called.
    Ready,
    /// The connection was lost and a restart is pending. Calls of the tools wait for it for a short time.
    Backoff,
    /// The server was stopped or is disabled.
    #[default]
    Stopped,
    /// The server failed to start several times in a row. Its tools are unavailable until a further attempt succeeds.
    Failed,
}

impl ServerState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Starting, Self::Ready, Self::Backoff, Self::Stopped, Self::Failed];

    /// Returns the name of the state in the API and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Backoff => "backoff",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// The tools that a server listed.
#[derive(Debug, Default)]
pub struct ToolList {
    /// Valid tools.
    pub tools: Vec<ListedTool>,
    /// Invalid tools: the name (or position) and the reason.
    pub left_out: Vec<(String, String)>,
}

impl ToolList {
    /// Reads the items of a server's list, and gives a name to each tool whose own name is no tool name.
    #[must_use]
    pub fn read(server: &str, items: Vec<Value>) -> Self {
        let mut listed = Self::default();
        let mut known = HashSet::new();
        for (index, tool) in items.into_iter().enumerate() {
            match ListedTool::read(index, tool) {
                Ok(tool) if !known.insert(tool.name.clone()) => {
                    listed.left_out.push((tool.name, "another tool has the same name".to_owned()));
                }
                Ok(tool) => listed.tools.push(tool),
                Err(left_out) => listed.left_out.push(left_out),
            }
        }
        listed.rename(server);
        listed
    }

    /// Gives aliases to the tools whose names are no tool names. An alias depends only on the name, unless another tool has
    /// it already; the order of the list never matters.
    fn rename(&mut self, server: &str) {
        let is_valid = |name: &str| is_valid_name(&format!("{server}.{name}"));
        let (valid, mut invalid): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.tools).into_iter().enumerate().partition(|(_, tool)| is_valid(&tool.name));
        if invalid.is_empty() {
            self.tools = valid.into_iter().map(|(_, tool)| tool).collect();
            return;
        }
        let mut taken: HashSet<String> = valid.iter().map(|(_, tool)| tool.name.clone()).collect();
        let mut named = valid;
        invalid.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        let length = MAX_ALIAS.min(MAX_TOOL_NAME.saturating_sub(server.len() + 1));
        for (index, mut tool) in invalid {
            match alias::free(&tool.name, length, |alias| taken.contains(alias)) {
                Some(alias) => {
                    taken.insert(alias.clone());
                    tool.shown = alias;
                    named.push((index, tool));
                }
                None => self.left_out.push((tool.name, "all its aliases are names of other tools".to_owned())),
            }
        }
        named.sort_by_key(|(index, _)| *index);
        self.tools = named.into_iter().map(|(_, tool)| tool).collect();
    }

    /// Returns the tools that have another name in Toolpost than at their server.
    pub fn renamed(&self) -> impl Iterator<Item = &ListedTool> {
        self.tools.iter().filter(|tool| tool.shown != tool.name)
    }
}

/// An observer of the tool lists of servers.
pub trait ToolListObserver: Send + Sync + 'static {
    /// Handles a new list; `None` means that the tools are unavailable, because the server was stopped or failed to start
    /// several times in a row. A starting server becomes ready only after the returned future has completed.
    fn tools_changed(&self, server: &str, listed: Option<Arc<ToolList>>) -> BoxFuture<()>;
}

/// The status of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerStatus {
    /// Current state.
    pub state: ServerState,
    /// Time of the last change of the state.
    pub since: Time,
    /// Process id of the program's helper.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// Message and time of the last error.
    pub last_error: Option<(String, Time)>,
    /// Negotiated protocol version.
    pub protocol_version: Option<String>,
    /// Name and version that the server reported.
    pub implementation: Option<(String, String)>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(server: &str, names: &[&str]) -> Vec<(String, String)> {
        let items = names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
        let listed = ToolList::read(server, items);
        listed.tools.into_iter().map(|tool| (tool.name, tool.shown)).collect()
    }

    #[test]
    fn names_of_any_kind_become_tool_names() {
        let long = "x".repeat(140);
        let wild = [
            "nasa/get-picture",
            "查询天气",
            "a b",
            &long,
            " a b",
            "a\nb",
            "a:b",
            "é",
            "a\u{0}b",
            "good",
            "with.dot",
            "-x",
        ];
        for server in ["s", &"s".repeat(64)] {
            let named = names(server, &wild);
            let distinct: HashSet<&String> = named.iter().map(|(_, shown)| shown).collect();
            assert_eq!((named.len(), distinct.len()), (wild.len(), wild.len()));
            for ((name, shown), given) in named.iter().zip(wild) {
                assert!(is_valid_name(&format!("{server}.{shown}")), "{shown}");
                assert_eq!(name, given, "the order is that of the server");
            }
            assert!(named.iter().filter(|(name, shown)| name == shown).count() == 3, "{named:?}");
        }
        assert!(names("s", &["nasa/get-picture"])[0].1.starts_with("nasa_get-picture_"));
    }

    #[test]
    fn alias_is_independent_of_order_and_never_replaces_a_name() {
        let of = |all: &[&str], name: &str| names("s", all).into_iter().find(|(own, _)| own == name).unwrap().1;
        let alone = of(&["a b"], "a b");
        assert_eq!(of(&["a/b", "a b", "a_b"], "a b"), alone);
        assert_eq!(of(&["a b", "a_b", "a/b"], "a/b"), of(&["a/b"], "a/b"));
        for all in [[alone.as_str(), "a b"], ["a b", alone.as_str()]] {
            assert_eq!(of(&all, &alone), alone);
            assert!(of(&all, "a b").starts_with(&alone) && of(&all, "a b") != alone);
        }
    }

    #[test]
    fn blank_names_are_left_out_with_the_reason() {
        let listed = ToolList::read("s", vec![json!({"name": " "}), json!({"name": ""}), json!({"name": 5})]);
        assert_eq!((listed.tools.len(), listed.left_out.len()), (0, 3));
    }
}
