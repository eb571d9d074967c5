//! The body of an operation. JSON becomes the argument `body`; a form becomes one argument per field (a file is an
//! object); text and bytes become a string.

use serde_json::{Map, Value, json};

use super::arguments::{BODY, Request, placeholder};
use super::files;
use super::media::{FORM, Kind, MULTIPART, essence, is_json};
use super::parameters::{self, Parameter, ParameterLocation};
use super::reference::{self, is_true, text};
use super::schema::{Bundler, Shape};
use super::version::Version;
use crate::domain::json;
use crate::domain::serialization::{Style, ValueStyle};

/// The body of an operation, in one of its media types.
#[derive(Debug, Clone, Copy)]
pub struct Body<'d> {
    kind: Kind,
    media_type: &'d str,
    schema: Option<&'d Value>,
    encoding: Option<&'d Map<String, Value>>,
    description: Option<&'d str>,
    required: bool,
}

impl<'d> Body<'d> {
    /// Returns `true` if the body is a single argument.
    pub fn is_argument(&self) -> bool {
        !matches!(self.kind, Kind::Form | Kind::Multipart)
    }

    /// Reads the body of a 3.0 or 3.1 operation, in the media type that is supported best.
    ///
    /// # Errors
    /// Returns the reason if the body is invalid.
    pub fn declared(document: &'d Value, operation: &'d Map<String, Value>) -> Result<Option<Self>, String> {
        let Some(value) = operation.get("requestBody").filter(|value| !value.is_null()) else { return Ok(None) };
        let body = reference::object(document, value, "`requestBody`")?;
        let content = reference::member(body, "content")?.ok_or("`requestBody` has no `content`")?;
        let best = content.iter().min_by_key(|(media_type, _)| Kind::of(media_type));
        let (media_type, value) = best.ok_or("`requestBody` has no media type")?;
        let media = reference::object(document, value, "a media type")?;
        Ok(Some(Self {
            kind: Kind::of(media_type),
            media_type,
            schema: media.get("schema"),
            encoding: reference::member(media, "encoding")?,
            description: text(body, "description"),
            required: is_true(body, "required"),
        }))
    }

    /// Reads the body of a 2.0 operation from its body parameter or its form parameters.
    ///
    /// # Errors
    /// Returns the reason if the body is invalid.
    pub fn of_parameters(
        parameters: &[Parameter<'d>],
        document: &'d Map<String, Value>,
        operation: &'d Map<String, Value>,
    ) -> Result<Option<Self>, String> {
        let consumes = reference::inherited(operation, document, "consumes")?;
        let kinds = consumes.iter().filter_map(Value::as_str).map(|media_type| (Kind::of(media_type), media_type));
        if let Some(body) = parameters.iter().find(|parameter| parameter.location == ParameterLocation::Body) {
            let (kind, media_type) = kinds.min_by_key(|(kind, _)| *kind).unwrap_or((Kind::Json, "application/json"));
            return Ok(Some(Self {
                kind,
                media_type,
                schema: body.object.get("schema"),
                encoding: None,
                description: text(body.object, "description"),
                required: is_true(body.object, "required"),
            }));
        }
        if !parameters.iter().any(|parameter| parameter.location == ParameterLocation::Form) {
            return Ok(None);
        }
        // Only a multipart form can contain files.
        let has_file = parameters.iter().any(|parameter| files::is_declared(parameter.object));
        let (usual, default) = match has_file {
            true => (Kind::Multipart, (Kind::Multipart, MULTIPART)),
            false => (Kind::Form, (Kind::Form, FORM)),
        };
        let mut kinds = kinds.filter(|(kind, _)| matches!(kind, Kind::Form | Kind::Multipart));
        let kind = kinds.clone().find(|(kind, _)| *kind == usual).or_else(|| kinds.next().filter(|_| !has_file));
        let (kind, media_type) = kind.unwrap_or(default);
        Ok(Some(Self { kind, media_type, schema: None, encoding: None, description: None, required: true }))
    }

    /// Adds the body to a request. The fields of a 2.0 form are parameters and are added as such.
    ///
    /// # Errors
    /// Returns the reason if the body cannot be sent.
    pub fn add(&self, document: &'d Value, version: Version, request: &mut Request<'d>) -> Result<(), String> {
        match self.kind {
            Kind::Json | Kind::OtherJson => {
                let schema = self.schema.map_or(Ok(Value::Bool(true)), |schema| request.bundler.schema(schema))?;
                request.add_body(schema, self.description, self.required);
                request.body = Some(placeholder(BODY));
                if self.kind == Kind::OtherJson {
                    self.add_content_type(request);
                }
                Ok(())
            }
            Kind::Form | Kind::Multipart => {
                request.body.get_or_insert_with(|| json!({}));
                request.body_type = Some(if self.kind == Kind::Form { "form" } else { "multipart" });
                if version == Version::V2 { Ok(()) } else { self.add_fields(document, request) }
            }
            Kind::Text => {
                self.add_string(request, "text", format!("The body, as {}.", essence(self.media_type)), json!({}));
                Ok(())
            }
            Kind::Bytes => {
                let what = match essence(self.media_type) {
                    any if any.contains('*') => "bytes".to_owned(),
                    media_type => format!("bytes of {media_type}"),
                };
                let encoding = json!({"contentEncoding": "base64"});
                self.add_string(request, "base64", format!("The body in base64 ({what})."), encoding);
                Ok(())
            }
            Kind::OtherMultipart => {
                Err(format!("its body is {}, which an http tool cannot send", essence(self.media_type)))
            }
        }
    }

    fn add_content_type(&self, request: &mut Request<'d>) {
        if !self.media_type.contains('*') {
            request.headers.insert("Content-Type".to_owned(), parameters::literal(self.media_type).into());
        }
    }

    fn add_string(&self, request: &mut Request<'d>, body_type: &'static str, what: String, mut schema: Value) {
        schema["type"] = "string".into();
        let description = self.description.map_or_else(|| what.clone(), |own| format!("{own} {what}"));
        request.add_body(schema, Some(&description), self.required);
        request.body = Some(placeholder(BODY));
        request.body_type = Some(body_type);
        self.add_content_type(request);
    }

    /// Adds each property of the schema as an argument.
    fn add_fields(&self, document: &'d Value, request: &mut Request<'d>) -> Result<(), String> {
        let form = if self.kind == Kind::Multipart { MULTIPART } else { "a form" };
        let unknown = "so its fields are unknown";
        let schema = self.schema.ok_or_else(|| format!("its body is {form} without a `schema`, {unknown}"))?;
        let schema = reference::object(document, schema, "the schema of a form")?;
        let is_composed = ["allOf", "anyOf", "oneOf"].iter().any(|keyword| schema.contains_key(*keyword));
        let properties = reference::member(schema, "properties")?.filter(|_| !is_composed);
        let properties = properties
            .ok_or_else(|| format!("its body is {form} whose schema has no plain `properties`, {unknown}"))?;
        let mut fields = Map::new();
        for (name, property) in properties {
            let Ok(object) = reference::object(document, property, "a field") else {
                return Err(format!("the field {} of its form has no schema", json::shorten(name, 100)));
            };
            if is_true(object, "readOnly") {
                continue;
            }
            let own = match self.encoding {
                Some(encodings) => reference::member(encodings, name)?,
                None => None,
            };
            let is_required = reference::elements(schema, "required")?.iter().any(|required| required == name);
            let media_type = own.and_then(|own| text(own, "contentType"));
            if self.kind == Kind::Multipart
                && let Some(file) = files::argument(document, object, media_type)?
            {
                let argument =
                    request.add(name, ParameterLocation::Form.word(), file, text(object, "description"), is_required);
                fields.insert(name.clone(), placeholder(&argument));
                continue;
            }
            let shape = request.bundler.shape(object);
            let style = match self.kind {
                Kind::Multipart => media_type.filter(|media_type| is_json(media_type)).map(|_| JSON),
                _ => form_style(&request.bundler, object, shape, own)?,
            };
            let made = request.bundler.schema(property)?;
            let argument = request.add(name, ParameterLocation::Form.word(), made, None, is_required);
            if let Some(style) = style {
                request.styles.insert(argument.clone(), style);
            }
            fields.insert(name.clone(), placeholder(&argument));
        }
        request.body = Some(Value::Object(fields));
        Ok(())
    }
}

const JSON: ValueStyle = ValueStyle { style: Style::Json, explode: false };

/// Returns the serialization of a form field; `None` for a scalar.
fn form_style(
    bundler: &Bundler<'_>,
    schema: &Map<String, Value>,
    shape: Shape,
    encoding: Option<&Map<String, Value>>,
) -> Result<Option<ValueStyle>, String> {
    let stated = encoding.filter(|own| own.contains_key("style") || own.contains_key("explode"));
    Ok(match (stated, shape) {
        (_, Shape::Scalar) => None,
        (Some(own), _) => Some(parameters::form_style(own)?),
        (None, Shape::Scalars) => Some(ValueStyle { style: Style::Form, explode: true }),
        // A field without a type may hold text, which is not sent as JSON; a list of such fields is sent as several
        // fields.
        (None, Shape::Composite) if bundler.is_open(schema) => {
            Some(ValueStyle { style: Style::Repeat, explode: false })
        }
        // By default, objects are sent as JSON (encoding object, `contentType`).
        (None, Shape::Composite) => Some(JSON),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_supported_media_type_is_chosen() {
        for (content, chosen) in [
            (
                json!({"application/xml": {}, "application/json": {}, "application/x-www-form-urlencoded": {}}),
                "application/json",
            ),
            (json!({"multipart/form-data": {}, "application/vnd.api+json; v=1": {}}), "application/vnd.api+json; v=1"),
            (json!({"application/octet-stream": {}, "text/plain": {}}), "text/plain"),
            (json!({"multipart/form-data": {}, "image/*": {}}), "image/*"),
            (json!({"multipart/form-data": {}}), "multipart/form-data"),
        ] {
            let operation = json!({"requestBody": {"content": content}});
            let body = Body::declared(&operation, operation.as_object().unwrap()).unwrap().unwrap();
            assert_eq!(body.media_type, chosen);
        }
    }
}
