//! Error messages for unknown members of a body, with the known members sorted by similarity.

use crate::domain::decode::DecodeError;
use crate::schema;

/// Maximum length of a name that is compared, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Adds the known members, the most similar one first, to an error about an unknown member of the object itself.
/// Returns other errors unchanged.
pub(super) fn named(error: DecodeError, calls: &[&'static str], options: &[&'static str]) -> DecodeError {
    let beginning = error.message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let Some((name, _)) = beginning.filter(|_| error.pointer.matches('/').count() == 1) else { return error };
    let mut members: Vec<&str> = calls.iter().chain(options).copied().collect();
    let meant = schema::nearest(name, members.iter().copied()).or_else(|| abbreviated(name, &members));
    // Longer names resemble no member.
    if name.len() <= MAX_NAME_BYTES {
        schema::sort_by_nearness(name, &mut members);
    }
    if let Some(index) = members.iter().position(|member| Some(*member) == meant) {
        members[..=index].rotate_right(1);
    }
    let listed: Vec<String> = members.iter().map(|member| format!("`{member}`")).collect();
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
    let message = format!("unknown field `{name}`: {meant}expected one of {}", listed.join(", "));
    DecodeError { message, ..error }
}

/// Returns the first member that `name` abbreviates, as `args` does `arguments`: it has the letters of the name in the
/// same order and begins with the same letter.
fn abbreviated<'a>(name: &str, members: &[&'a str]) -> Option<&'a str> {
    let shortens = |member: &&&str| {
        let mut letters = member.chars();
        name.len() > 2
            && name.chars().next() == member.chars().next()
            && name.chars().all(|one| letters.any(|other| other == one))
    };
    members.iter().find(shortens).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> String {
        let error = DecodeError { pointer: format!("/{name}"), message: format!("unknown field `{name}`, expected x") };
        named(error, &["name", "arguments", "id"], &["session", "agent", "wait", "mode"]).message
    }

    #[test]
    fn nearest_members_come_first() {
        for (name, meant) in [
            ("args", "arguments"),
            ("argument", "arguments"),
            ("sesion", "session"),
            ("nmae", "name"),
            ("Wait", "wait"),
        ] {
            let text = message(name);
            let beginning = format!("unknown field `{name}`: did you mean `{meant}`? expected one of `{meant}`, ");
            assert!(text.starts_with(&beginning), "{text}");
            assert!(["name", "arguments", "id", "session", "agent"].iter().all(|one| text.contains(one)), "{text}");
        }
        assert!(message("zzzzz").starts_with("unknown field `zzzzz`: expected one of `"));
    }

    #[test]
    fn other_errors_are_unchanged() {
        let error = DecodeError { pointer: "/limits/x".into(), message: "unknown field `x`, expected y".into() };
        assert_eq!(named(error.clone(), &[], &[]), error);
    }
}
