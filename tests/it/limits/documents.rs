//! The limits reference: complete, with valid links.

use toolpost::config::limits::reference;

use crate::support::fixture::{project_file, same_as_file};

#[test]
fn reference_lists_all_limits_with_their_defaults() {
    same_as_file("docs/reference/limits.md", &reference(), "UPDATE_FIXTURES=1 cargo test --test it limits");
}

#[test]
fn links_of_the_reference_exist() {
    assert!(project_file("docs/operations/overload.md").exists());
}
