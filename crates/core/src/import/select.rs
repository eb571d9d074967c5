//! Selects the operations to import.

use super::ImportError;
use super::operation::OperationRef;
use super::reference::text;
use crate::domain::json;
use crate::schema;

/// The selected tags and operations; all operations if empty.
#[derive(Debug)]
pub struct Selection<'o> {
    wanted: Vec<(&'o str, bool)>,
}

impl<'o> Selection<'o> {
    /// Creates a selection from the option `only`.
    pub fn new(only: &'o [String]) -> Self {
        Self { wanted: only.iter().map(|one| (one.trim(), false)).collect() }
    }

    /// Returns `true` if an operation is selected.
    pub fn selects(&mut self, operation: &OperationRef<'_>) -> bool {
        let mut taken = self.wanted.is_empty();
        for (wanted, found) in &mut self.wanted {
            if is_meant(operation, wanted) {
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
        let Some(index) = self.wanted.iter().position(|(_, found)| !found) else { return Ok(()) };
        let (wanted, _) = self.wanted[index];
        let hint =
            schema::nearest(wanted, known).map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        let message = format!(
            "\"{}\" is not a tag, operationId, path or METHOD /path of the document{hint}",
            json::shorten(wanted, 100)
        );
        Err(ImportError::option("only", format!("/{index}"), message))
    }
}

/// Returns `true` if an entry of `only` names an operation, its tool or one of its tags.
fn is_meant(operation: &OperationRef<'_>, wanted: &str) -> bool {
    let is_path_and_method = || {
        let (method, path) = wanted.split_once(char::is_whitespace)?;
        Some(method.eq_ignore_ascii_case(operation.method) && path.trim() == operation.path)
    };
    operation.tags.iter().any(|tag| tag == wanted)
        || text(operation.operation, "operationId") == Some(wanted)
        || operation.tool == wanted
        || operation.path == wanted
        || is_path_and_method().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_is_selected_by_any_of_its_keys() {
        let operation = serde_json::json!({"operationId": "getPet"});
        let operation = operation.as_object().unwrap();
        let (tags, tool) = (vec!["pets".to_owned()], "shop_getPet".to_owned());
        let known = &OperationRef { path: "/pets/{id}", method: "get", item: operation, operation, tags, tool };
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
