//! `reset_equipped_tools`: switches the manageable groups of the session.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Manageable, session_of, store_error};
use toolpost_store::store::Stores;
use toolpost_tool::tool::{DefinitionBuilder, Json, Run, Tool, ToolError};

/// The name of the tool.
pub const NAME: &str = "reset_equipped_tools";

/// The tool `reset_equipped_tools`.
pub struct ResetEquippedTools {
    pub(super) stores: Stores,
    pub(super) manageable: Manageable,
}

/// Chooses the groups of tools to work with. The given groups are activated, and all other manageable groups are
/// deactivated: the list is the final set, not a change of the current set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EquipArgs {
    /// The groups to activate; an empty list deactivates all manageable groups.
    pub to_activate: Vec<String>,
}

impl Tool for ResetEquippedTools {
    const NAME: &'static str = NAME;
    type Args = EquipArgs;
    type Output = Json<serde_json::Value>;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Choose tools")
            .category(super::CATEGORY)
            .example(json!({"to_activate": ["mail"]}), json!({"active": ["mail"], "inactive": ["files"]}))
            .non_destructive()
            .closed_world()
    }

    async fn call(&self, EquipArgs { to_activate }: EquipArgs, run: Run) -> Result<Self::Output, ToolError> {
        let manageable: BTreeSet<String> = (self.manageable)(run.tenant()).into_iter().collect();
        let wanted: BTreeSet<String> = to_activate.into_iter().collect();
        let unknown: Vec<&str> = wanted.difference(&manageable).map(String::as_str).collect();
        if !unknown.is_empty() {
            let details = json!({"unknown": unknown, "manageable": manageable});
            let known = Vec::from_iter(manageable.iter().map(String::as_str)).join(", ");
            let known = if known.is_empty() { "none" } else { &known };
            let message = format!(
                "unknown or unmanageable groups: {}; nothing was changed. Manageable groups: {known}",
                unknown.join(", ")
            );
            return Err(ToolError::new(message).with_details(details));
        }
        let store = self.stores.for_tenant(run.tenant());
        let session = session_of(&store, run.session()).await?;
        let switches = manageable.iter().map(|group| (group.clone(), wanted.contains(group))).collect();
        if !store.switch_session_groups(&session.id, &switches).await.map_err(store_error)? {
            return Err("the session was deleted".into());
        }
        let inactive: Vec<&String> = manageable.difference(&wanted).collect();
        Ok(Json(json!({"active": wanted, "inactive": inactive})))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use toolpost_core::domain::{Failure, Session, Tenant, Time, ToolOutput};
    use toolpost_store::store::Store;
    use toolpost_tool::tool::{BuiltinTool, CallData, ToolSet};

    async fn equipped(store: &Store, to_activate: &[&str]) -> Result<ToolOutput, Failure> {
        let manageable = Arc::new(|_: &Tenant| vec!["files".to_owned(), "mail".to_owned(), "web".to_owned()]);
        let tool = BuiltinTool::new(ResetEquippedTools { stores: store.stores().clone(), manageable });
        let (name, arguments) = (NAME.to_owned(), json!({"to_activate": to_activate}));
        let call = CallData { name, arguments, session: Some("s".into()), ..CallData::default() };
        ToolSet::new([tool]).run(call, CancellationToken::new()).unwrap().output.await
    }

    async fn groups(store: &Store) -> Vec<(String, bool)> {
        store.session("s").await.unwrap().unwrap().groups.into_iter().collect()
    }

    #[tokio::test]
    async fn all_manageable_groups_are_set_and_no_others() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let mut session = Session::new("s".into(), Time(1));
        session.groups = [("own", false), ("mail", true)].map(|(name, on)| (name.to_owned(), on)).into();
        store.make_session(&session).await.unwrap();
        let answer = equipped(&store, &["web", "files", "web"]).await;
        let expected = json!({"active": ["files", "web"], "inactive": ["mail"]});
        assert_eq!(answer, Ok(ToolOutput::Data(Arc::new(expected))));
        let now = [("files", true), ("mail", false), ("own", false), ("web", true)];
        assert_eq!(groups(&store).await, now.map(|(name, on)| (name.to_owned(), on)));
        let failure = equipped(&store, &["mail", "own", "none"]).await.unwrap_err();
        assert!(failure.message.contains("none, own") && failure.message.contains("files, mail, web"), "{failure:?}");
        assert_eq!(groups(&store).await, now.map(|(name, on)| (name.to_owned(), on)), "nothing was changed");
    }
}
