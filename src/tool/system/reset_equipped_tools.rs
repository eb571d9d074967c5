//! `reset_equipped_tools`: switches the manageable groups of the session.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Manageable, session_of, store_error};
use crate::store::Stores;
use crate::tool::{DefinitionBuilder, Json, Run, Tool, ToolError};

/// The name of the tool.
pub const NAME: &str = "reset_equipped_tools";

/// The tool `reset_equipped_tools`.
#[derive(Clone)]
pub struct ResetEquippedTools {
    stores: Stores,
    manageable: Manageable,
}

impl fmt::Debug for ResetEquippedTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ResetEquippedTools")
    }
}

/// Chooses the groups of tools to work with. The given groups are activated, and all other manageable groups are
/// deactivated: the list is the final set, not a change of the current set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EquipArgs {
    /// The groups to activate; an empty list deactivates all manageable groups.
    pub to_activate: Vec<String>,
}

impl ResetEquippedTools {
    pub(super) fn new(stores: Stores, manageable: Manageable) -> Self {
        Self { stores, manageable }
    }
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
            .harmless()
            .closed_world()
    }

    async fn call(&self, EquipArgs { to_activate }: EquipArgs, run: Run) -> Result<Self::Output, ToolError> {
        let manageable: BTreeSet<String> = (self.manageable)(run.tenant()).into_iter().collect();
        let wanted: BTreeSet<String> = to_activate.into_iter().collect();
        let unknown: Vec<&str> = wanted.difference(&manageable).map(String::as_str).collect();
        let names = |groups: &BTreeSet<String>| groups.iter().cloned().collect::<Vec<String>>();
        if !unknown.is_empty() {
            let there = if manageable.is_empty() { "none".to_owned() } else { names(&manageable).join(", ") };
            let details = json!({"unknown": unknown, "manageable": manageable});
            let message = format!(
                "unknown or unmanageable groups: {}; nothing was changed. Manageable groups: {there}",
                unknown.join(", ")
            );
            return Err(ToolError::new(message).with_details(details));
        }
        let session = session_of(&self.stores, &run).await?;
        let switches = manageable.iter().map(|group| (group.clone(), wanted.contains(group))).collect();
        if !self
            .stores
            .of(run.tenant())
            .switch_session_groups(&session.id, &switches)
            .await
            .map_err(|error| store_error(&error))?
        {
            return Err(ToolError::new("the session was deleted"));
        }
        let inactive: BTreeSet<String> = manageable.difference(&wanted).cloned().collect();
        Ok(Json(json!({"active": names(&wanted), "inactive": names(&inactive)})))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{Failure, Session, Tenant, Time, ToolOutput};
    use crate::executor::Invocation;
    use crate::store::Store;
    use crate::tool::BuiltinTool;
    use crate::tool::typed::tests::invocation;

    async fn equipped(store: &Store, to_activate: &[&str]) -> Result<ToolOutput, Failure> {
        let manageable = Arc::new(|_: &Tenant| vec!["files".to_owned(), "mail".to_owned(), "web".to_owned()]);
        let tool = BuiltinTool::new(ResetEquippedTools::new(store.stores().clone(), manageable));
        let (invocation, _reports) = invocation(json!({"to_activate": to_activate}));
        tool.executor.execute(Invocation { session: Some("s".into()), ..invocation }).await
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
