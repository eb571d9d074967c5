//! The media types of bodies, and how an `http` tool can send each.

/// The media type of a form whose fields are URL-encoded.
pub const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of a form with one part per field.
pub const MULTIPART: &str = "multipart/form-data";

/// The way to send a media type, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Json,
    OtherJson,
    Form,
    Text,
    Bytes,
    Multipart,
    OtherMultipart,
}

/// Returns `true` if a media type is JSON.
pub fn is_json(media_type: &str) -> bool {
    matches!(Kind::of(media_type), Kind::Json | Kind::OtherJson)
}

/// Returns a media type without its parameters, in lower case.
pub fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl Kind {
    /// Returns the kind of a media type, ignoring parameters.
    pub fn of(media_type: &str) -> Self {
        let essence = essence(media_type);
        match essence.as_str() {
            "application/json" | "*/*" | "application/*" => Self::Json,
            FORM => Self::Form,
            "application/xml"
            | "application/yaml"
            | "application/x-yaml"
            | "application/graphql"
            | "application/sql"
            | "application/x-ndjson"
            | "application/jsonl" => Self::Text,
            other if other.ends_with("+json") => Self::OtherJson,
            other if other.ends_with("+xml") || other.ends_with("+yaml") || other.starts_with("text/") => Self::Text,
            "multipart/form-data" | "multipart/*" => Self::Multipart,
            other if other.starts_with("multipart/") => Self::OtherMultipart,
            _ => Self::Bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_detected_by_name_or_suffix() {
        assert!(
            is_json("Application/JSON; charset=utf-8") && is_json("application/problem+json") && !is_json("text/json5")
        );
    }
}
