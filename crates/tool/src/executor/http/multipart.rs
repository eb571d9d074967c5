//! `multipart/form-data` bodies (RFC 7578) of fields and base64-encoded files.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value};

use super::body::{Fields, JsonTemplate};
use super::styles::Styles;
use super::template::{Arguments, text_of};
use toolpost_core::domain::json::shorten;
use toolpost_core::domain::serialization::Style;

/// Maximum number of parts; each part adds about a hundred bytes to its value.
const MAX_PARTS: usize = 10_000;

/// The default media type of files.
const BYTES: &str = "application/octet-stream";

/// Renders the fields as parts. Returns the `Content-Type` with the boundary, and the body.
///
/// # Errors
/// Returns a message for the model if a file is not base64, a media type is invalid, or there are too many parts.
pub fn render(fields: &Fields, arguments: &Arguments, styles: &Styles) -> Result<(HeaderValue, Bytes), String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|_| "cannot create the boundary of the request".to_owned())?;
    let boundary = format!("toolpost-{:032x}", u128::from_be_bytes(random));
    let mut body = Multipart { boundary: &boundary, bytes: Vec::new(), parts: 0 };
    for (name, template) in &fields.0 {
        let (value, is_json) = match template {
            JsonTemplate::Typed(argument) => {
                let is_json = styles.0.get(argument).is_some_and(|style| style.style == Style::Json);
                (arguments.get(argument).map(Cow::Borrowed), is_json)
            }
            template => (template.render(arguments).map(Cow::Owned), false),
        };
        match value.as_deref() {
            None | Some(Value::Null) => {}
            Some(value) if is_json => body.add_json(name, value)?,
            Some(Value::Array(items)) => {
                items.iter().filter(|item| !item.is_null()).try_for_each(|item| body.add(name, item))?;
            }
            Some(value) => body.add(name, value)?,
        }
    }
    body.bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}"));
    let content_type =
        content_type.map_err(|_| "the boundary of the request is not a valid header value".to_owned())?;
    Ok((content_type, body.bytes.into()))
}

/// A body under construction.
struct Multipart<'b> {
    boundary: &'b str,
    bytes: Vec<u8>,
    parts: usize,
}

impl Multipart<'_> {
    fn add(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match value {
            Value::Object(object) => match File::of(object) {
                Some(file) => self.add_file(name, &file),
                None => self.add_json(name, value),
            },
            Value::Array(_) => self.add_json(name, value),
            scalar => self.part(&format!("name=\"{}\"", escaped(name)), None, text_of(scalar).as_bytes()),
        }
    }

    fn add_json(&mut self, name: &str, value: &Value) -> Result<(), String> {
        self.part(&format!("name=\"{}\"", escaped(name)), Some("application/json"), value.to_string().as_bytes())
    }

    fn add_file(&mut self, name: &str, file: &File<'_>) -> Result<(), String> {
        let shown = shorten(name, 100);
        let content = STANDARD.decode(file.content_base64.trim());
        let content = content.map_err(|error| format!("the file {shown} is not base64: {error}"))?;
        let content_type = file.content_type.unwrap_or(BYTES);
        if !content_type.contains('/') || !content_type.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            let content_type = shorten(content_type, 100);
            return Err(format!("the `content_type` of the file {shown} must be a media type, got \"{content_type}\""));
        }
        let filename = escaped(file.filename.unwrap_or("file"));
        self.part(&format!("name=\"{}\"; filename=\"{filename}\"", escaped(name)), Some(content_type), &content)
    }

    fn part(&mut self, disposition: &str, content_type: Option<&str>, content: &[u8]) -> Result<(), String> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(format!("the request has more than {MAX_PARTS} parts"));
        }
        let content_type = content_type.map(|name| format!("Content-Type: {name}\r\n")).unwrap_or_default();
        let head =
            format!("--{}\r\nContent-Disposition: form-data; {disposition}\r\n{content_type}\r\n", self.boundary);
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(content);
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// A file in an argument.
struct File<'v> {
    filename: Option<&'v str>,
    content_base64: &'v str,
    content_type: Option<&'v str>,
}

impl<'v> File<'v> {
    /// Reads a file from an object; `None` if the object is other data.
    fn of(object: &'v Map<String, Value>) -> Option<Self> {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let file = Self {
            filename: text("filename"),
            content_base64: text("content_base64")?,
            content_type: text("content_type"),
        };
        let is_member = |name: &str| ["filename", "content_base64", "content_type"].contains(&name);
        let is_file = object.iter().all(|(name, value)| value.is_null() || value.is_string() && is_member(name));
        is_file.then_some(file)
    }
}

/// Escapes a name for use between quotes: percent-encodes quotes and control characters, as browsers do (RFC 7578,
/// section 2).
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\0'..='\x1f' | '\x7f' => escaped.push_str(&format!("%{:02X}", u32::from(character))),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use toolpost_core::domain::serialization::ValueStyle;

    fn rendered(body: Value, arguments: Value) -> Result<(String, String), String> {
        let mut faults = Vec::new();
        let fields = Fields::parse(body.as_object().unwrap(), "/body", &mut faults);
        assert_eq!(faults, []);
        let styles = Styles([("as_json".to_owned(), ValueStyle { style: Style::Json, explode: false })].into());
        let (content_type, body) = render(&fields, arguments.as_object().unwrap(), &styles)?;
        let boundary =
            content_type.to_str().unwrap().strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
        Ok((String::from_utf8(body.to_vec()).unwrap().replace(&boundary, "B"), boundary))
    }

    #[test]
    fn fields_and_files_become_parts() {
        let body = json!({"text": "{text}", "n": "{n}", "list": "{list}", "object": "{object}", "none": "{none}",
            "absent": "{absent}", "as_json": "{as_json}", "file": "{file}", "fixed": "x{n}"});
        let file = json!({"filename": "a.txt", "content_base64": "aGVsbG8=", "content_type": "text/plain"});
        let arguments = json!({"text": "é\r\n", "n": 5, "list": ["a", 1, null, {"content_base64": ""}],
            "object": {"k": [1]}, "none": null, "as_json": "s", "file": file});
        let (text, _) = rendered(body, arguments).unwrap();
        let part =
            |head: &str, content: &str| format!("--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n");
        let expected = [
            part("name=\"text\"", "é\r\n"),
            part("name=\"n\"", "5"),
            part("name=\"list\"", "a"),
            part("name=\"list\"", "1"),
            part("name=\"list\"; filename=\"file\"\r\nContent-Type: application/octet-stream", ""),
            part("name=\"object\"\r\nContent-Type: application/json", "{\"k\":[1]}"),
            part("name=\"as_json\"\r\nContent-Type: application/json", "\"s\""),
            part("name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain", "hello"),
            part("name=\"fixed\"", "x5"),
            "--B--\r\n".to_owned(),
        ];
        assert_eq!(text, expected.concat());
    }

    #[test]
    fn names_cannot_leave_their_quotes() {
        let file = json!({"filename": "a\"; x=\"\r\nX-Evil: 1", "content_base64": "eA=="});
        let (text, _) = rendered(json!({"f\"\n": "{f}"}), json!({"f": file})).unwrap();
        assert!(text.contains("name=\"f%22%0A\"; filename=\"a%22; x=%22%0D%0AX-Evil: 1\"\r\n"), "{text}");
    }

    #[test]
    fn boundaries_differ_and_wrong_files_are_rejected() {
        let boundary = || rendered(json!({}), json!({})).unwrap().1;
        assert_ne!(boundary(), boundary());
        for (file, message) in [
            (json!({"content_base64": "%"}), "not base64"),
            (json!({"content_base64": "", "content_type": "text"}), "must be a media type"),
            (json!({"content_base64": "", "content_type": "a/b\r\nX: y"}), "must be a media type"),
        ] {
            let error = rendered(json!({"f": "{f}"}), json!({"f": file})).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let many = json!({"f": vec![1; MAX_PARTS + 1]});
        assert!(rendered(json!({"f": "{f}"}), many).unwrap_err().contains("parts"));
        // An object with other members is data.
        let data = json!({"f": {"content_base64": "eA==", "note": 1}});
        assert!(rendered(json!({"f": "{f}"}), data).unwrap().0.contains("application/json"));
    }
}
