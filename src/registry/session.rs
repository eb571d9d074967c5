//! The tools of a session: its restriction to named tools, and the system tools that it names.

use std::sync::Arc;

use super::{Entry, Snapshot};
use crate::domain::Session;
use crate::tool::system;

impl Snapshot {
    /// Returns the system tool of this name, for any session.
    #[must_use]
    pub fn system(&self, name: &str) -> Option<&Arc<Entry>> {
        self.systems().iter().find(|entry| *entry.name == *name)
    }

    /// Returns the system tool of this name, if this session has activated it.
    #[must_use]
    pub fn system_of(&self, session: &Session, name: &str) -> Option<&Arc<Entry>> {
        self.system(name).filter(|_| session.names(name))
    }

    /// Returns the names that a session is restricted to. A list that names only system tools restricts nothing.
    #[must_use]
    pub fn restriction<'a>(&self, session: &'a Session) -> Option<&'a [String]> {
        let tools = session.tools.as_deref()?;
        let names_others = tools.iter().any(|name| !system::NAMES.contains(&name.as_str()));
        (names_others || tools.is_empty()).then_some(tools)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Time;

    fn restriction<'a>(session: &'a mut Session, tools: Option<&[&str]>) -> Option<&'a [String]> {
        session.tools = tools.map(|tools| tools.iter().map(|&name| name.to_owned()).collect());
        Snapshot::default().restriction(session)
    }

    #[test]
    fn session_is_restricted_by_other_tools_or_an_empty_list() {
        let mut session = Session::new("s".into(), Time(0));
        assert_eq!(restriction(&mut session, None), None);
        assert_eq!(restriction(&mut session, Some(&["new_task", "attempt_completion"])), None);
        assert_eq!(restriction(&mut session, Some(&[])), Some(&[][..]));
        let both = ["new_task".to_owned(), "echo".to_owned()];
        assert_eq!(restriction(&mut session, Some(&["new_task", "echo"])), Some(&both[..]));
    }
}
