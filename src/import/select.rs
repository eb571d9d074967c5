//! Selects the operations to import.

use super::ImportError;
use crate::domain::json;
use crate::schema;

/// The selected tags and operations; all operations if empty.
#[derive(Debug)]
pub struct Selection<'o> {
    wanted: Vec<(&'o str, bool)>,
}

/// The keys by which an operation can be selected.
#[derive(Debug, Clone, Copy)]
pub struct OperationKeys<'a> {
    /// The tags.
    pub tags: &'a [String],
    /// The `operationId`.
    pub id: Option<&'a str>,
    /// The name of the tool.
    pub tool: &'a str,
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The path, such as `/pets/{id}`.
    pub path: &'a str,
}

impl<'o> Selection<'o> {
    /// Creates a selection from the option `only`.
    #[must_use]
    pub fn new(only: &'o [String]) -> Self {
        Self { wanted: only.iter().map(|one| (one.trim(), false)).collect() }
    }

    /// Returns `true` if an operation is selected.
    pub fn selects(&mut self, operation: OperationKeys<'_>) -> bool {
        let mut taken = self.wanted.is_empty();
        for (wanted, found) in &mut self.wanted {
            if operation.is(wanted) {
                *found = true;
                taken = true;
            }
        }
        taken
    }

    /// Checks that each entry selects an operation. `known` are the tags and ids of the document, for suggestions.
    ///
    /// # Errors
    /// Returns an [`ImportError`] for the first entry that selects nothing.
    pub fn check<'k>(&self, known: impl Iterator<Item = &'k str>) -> Result<(), ImportError> {
        let Some(place) = self.wanted.iter().position(|(_, found)| !found) else { return Ok(()) };
        let (wanted, _) = self.wanted[place];
        let hint =
            schema::nearest(wanted, known).map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        let message = format!(
            "\"{}\" is not a tag, operationId, path or METHOD /path of the document{hint}",
            json::shorten(wanted, 100)
        );
        Err(ImportError::option("only", format!("/{place}"), message))
    }
}

impl OperationKeys<'_> {
    fn is(self, wanted: &str) -> bool {
        let by_place = || {
            let (method, path) = wanted.split_once(char::is_whitespace)?;
            Some(method.eq_ignore_ascii_case(self.method) && path.trim() == self.path)
        };
        self.tags.iter().any(|tag| tag == wanted)
            || self.id == Some(wanted)
            || self.tool == wanted
            || self.path == wanted
            || by_place().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_is_selected_by_any_of_its_keys() {
        let tags = ["pets".to_owned()];
        let known =
            OperationKeys { tags: &tags, id: Some("getPet"), tool: "shop_getPet", method: "GET", path: "/pets/{id}" };
        for wanted in ["pets", "getPet", "shop_getPet", "/pets/{id}", "get /pets/{id}"] {
            let only = [wanted.to_owned()];
            let mut selection = Selection::new(&only);
            assert!(selection.selects(known) && selection.check(["pets"].into_iter()).is_ok(), "{wanted}");
        }
        assert!(Selection::new(&[]).selects(known));
        let only = ["pets".to_owned(), "pest".to_owned()];
        let mut selection = Selection::new(&only);
        assert!(selection.selects(known));
        let error = selection.check(["pets"].into_iter()).unwrap_err();
        assert_eq!((error.option, error.pointer.as_str()), (Some("only"), "/1"));
        assert!(error.message.ends_with("did you mean \"pets\"?"), "{error}");
    }
}
