//! The limits reference: complete, with valid links.

use toolpost::config::limits::reference;

use crate::support::fixture::{project_file, same_as_file};

#[test]
fn the_reference_is_the_list_with_the_defaults() {
    same_as_file("docs/reference/limits.md", &reference(), "UPDATE_FIXTURES=1 cargo test --test it limits");
}

#[test]
fn what_the_reference_links_is_there() {
    assert!(project_file("docs/operations/overload.md").exists());
}
