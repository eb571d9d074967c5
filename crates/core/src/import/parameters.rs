//! The parameters of an operation: their locations and serialization.

use serde_json::{Map, Value};

use super::arguments::{Request, placeholder};
use super::credentials::Credential;
use super::files;
use super::media::is_json;
use super::reference::{self, is_true, text};
use super::schema::{Bundler, Shape};
use super::version::Version;
use crate::domain::json;
use crate::domain::serialization::{RESERVED_HEADERS, Style, ValueStyle};

/// Maximum number of parameters of an operation.
const MAX_PARAMETERS: usize = 300;

/// The location of a parameter; argument names are assigned in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParameterLocation {
    /// The path.
    Path,
    /// The query string.
    Query,
    /// A header.
    Header,
    /// A cookie.
    Cookie,
    /// A field of the form in the body (2.0).
    Form,
    /// The body itself (2.0).
    Body,
}

impl ParameterLocation {
    fn of(word: &str) -> Option<Self> {
        match word {
            "path" => Some(Self::Path),
            "query" => Some(Self::Query),
            "header" => Some(Self::Header),
            "cookie" => Some(Self::Cookie),
            "formData" => Some(Self::Form),
            "body" => Some(Self::Body),
            _ => None,
        }
    }

    /// Returns the name of the location, as used in argument names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
            Self::Form => "form",
            Self::Body => "body",
        }
    }
}

/// A declared parameter.
#[derive(Debug, Clone, Copy)]
pub struct Parameter<'d> {
    /// The name in the request.
    pub name: &'d str,
    /// The location in the request.
    pub location: ParameterLocation,
    /// The parameter object.
    pub object: &'d Map<String, Value>,
}

impl Parameter<'_> {
    /// Returns `true` if a request needs the parameter.
    pub fn is_required(&self) -> bool {
        self.location == ParameterLocation::Path || is_true(self.object, "required")
    }
}

/// Collects the parameters of an operation and of its path. A parameter of the operation overrides a parameter of the
/// path with the same name and location.
///
/// # Errors
/// Returns the reason if a parameter is invalid.
pub fn collect<'d>(
    document: &'d Value,
    path: &'d Map<String, Value>,
    operation: &'d Map<String, Value>,
) -> Result<Vec<Parameter<'d>>, String> {
    let mut found: Vec<Parameter<'d>> = Vec::new();
    for value in reference::elements(path, "parameters")?.iter().chain(reference::elements(operation, "parameters")?) {
        let object = reference::object(document, value, "a parameter")?;
        let name = object.get("name").and_then(Value::as_str).ok_or("a parameter has no `name`")?;
        let shown = json::shorten(name, 100);
        let word =
            object.get("in").and_then(Value::as_str).ok_or_else(|| format!("the parameter {shown} has no `in`"))?;
        let location = ParameterLocation::of(word).ok_or_else(|| {
            format!("the parameter {shown} is `in` \"{}\", which is unknown", json::shorten(word, 40))
        })?;
        let parameter = Parameter { name, location, object };
        match found.iter_mut().find(|other| (other.location, other.name) == (location, name)) {
            Some(other) => *other = parameter,
            None => found.push(parameter),
        }
        if found.len() > MAX_PARAMETERS {
            return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
        }
    }
    found.sort_by_key(|parameter| parameter.location);
    Ok(found)
}

/// Adds a parameter to a request.
///
/// # Errors
/// Returns the reason if the parameter cannot be sent.
pub fn add<'d>(
    parameter: &Parameter<'d>,
    document: &'d Value,
    version: Version,
    credentials: &[&Credential],
    request: &mut Request<'d>,
) -> Result<(), String> {
    let Parameter { name, location, object } = *parameter;
    if credentials.iter().any(|credential| credential.sets(location.word(), name)) {
        return Ok(());
    }
    if location == ParameterLocation::Header {
        match name.to_ascii_lowercase().as_str() {
            // OpenAPI ignores such parameters (parameter object, `in`).
            "accept" | "content-type" => return Ok(()),
            "authorization" => return Err("credentials are set with the import option `auth`".to_owned()),
            header if RESERVED_HEADERS.contains(&header) => return Err("the service sets this header".to_owned()),
            _ => {}
        }
    }
    let (mut schema, style, shape) = match version {
        Version::V2 => old_schema(object, location, &mut request.bundler)?,
        Version::V30 | Version::V31 => new_schema(document, object, location, &mut request.bundler)?,
    };
    if let Some(members) = schema.as_object_mut() {
        annotate(members, object);
    }
    let description = text(object, "description");
    let argument = request.add(name, location.word(), schema, description, parameter.is_required());
    if shape != Shape::Scalar || matches!(style.style, Style::Label | Style::Json) {
        request.styles.insert(argument.clone(), style);
    }
    let value = placeholder(&argument);
    match location {
        ParameterLocation::Path => {
            let is_matrix = text(object, "style") == Some("matrix");
            let prefix = if is_matrix { format!(";{}=", literal(name)) } else { String::new() };
            request.path.insert(name.to_owned(), format!("{prefix}{{{argument}}}"));
        }
        ParameterLocation::Query => drop(request.query.insert(name.to_owned(), value)),
        ParameterLocation::Header => drop(request.headers.insert(name.to_owned(), value)),
        ParameterLocation::Cookie => drop(request.cookies.insert(name.to_owned(), value)),
        ParameterLocation::Form => {
            let fields = request.body.get_or_insert_with(|| Value::Object(Map::new()));
            fields[name] = value;
        }
        ParameterLocation::Body => {}
    }
    if style.style == Style::DeepObject && has_nested(document, object) {
        let message = format!(
            "the parameter {} has arrays or objects within a deepObject, which OpenAPI does not define: they are sent \
             as name[key][]=value, name[key][key]=value and name[key][0][key]=value",
            json::shorten(name, 100)
        );
        request.warnings.push(message);
    }
    Ok(())
}

/// Adds the example and the deprecation of a parameter to its schema.
fn annotate(schema: &mut Map<String, Value>, parameter: &Map<String, Value>) {
    let example = parameter.get("example").filter(|example| !example.is_array() && !example.is_object());
    if let (Some(example), None) = (example, schema.get("examples")) {
        schema.insert("examples".to_owned(), vec![example.clone()].into());
    }
    if is_true(parameter, "deprecated") {
        schema.insert("deprecated".to_owned(), Value::Bool(true));
    }
}

/// Returns the converted schema, the serialization and the shape of a 2.0 parameter.
fn old_schema<'d>(
    object: &'d Map<String, Value>,
    location: ParameterLocation,
    bundler: &mut Bundler<'d>,
) -> Result<(Value, ValueStyle, Shape), String> {
    if !files::is_declared(object) {
        let shape = bundler.shape(object);
        return Ok((bundler.of_object(object)?, old_style(object, location)?, shape));
    }
    if location != ParameterLocation::Form {
        return Err("a file is only allowed in a form (`in: formData`)".to_owned());
    }
    Ok((files::schema(None), old_style(object, location)?, Shape::Scalar))
}

/// Returns the converted schema, the serialization and the shape of a 3.0 or 3.1 parameter.
fn new_schema<'d>(
    document: &'d Value,
    object: &'d Map<String, Value>,
    location: ParameterLocation,
    bundler: &mut Bundler<'d>,
) -> Result<(Value, ValueStyle, Shape), String> {
    let content = content(document, object)?;
    let schema = content.unwrap_or_else(|| object.get("schema"));
    let made = schema.map_or(Ok(Value::Bool(true)), |schema| bundler.schema(schema))?;
    let shape = match schema {
        Some(Value::Object(schema)) if content.is_none() => bundler.shape(schema),
        _ => Shape::Composite,
    };
    let style = match content {
        Some(_) => ValueStyle { style: Style::Json, explode: false },
        None => new_style(object, location, shape)?,
    };
    Ok((made, style, shape))
}

/// Returns the schema of a parameter with a media type, which must be JSON.
fn content<'d>(document: &'d Value, object: &'d Map<String, Value>) -> Result<Option<Option<&'d Value>>, String> {
    let Some(content) = reference::member(object, "content")? else { return Ok(None) };
    let Some((media_type, value)) = content.iter().next() else { return Ok(None) };
    if !is_json(media_type) {
        return Err(format!("its media type is {}; only JSON is supported", json::shorten(media_type, 100)));
    }
    Ok(Some(reference::object(document, value, "a media type")?.get("schema")))
}

/// Reads `style` and `explode` of 3.0 and 3.1.
fn new_style(object: &Map<String, Value>, location: ParameterLocation, shape: Shape) -> Result<ValueStyle, String> {
    let default =
        if matches!(location, ParameterLocation::Path | ParameterLocation::Header) { "simple" } else { "form" };
    let word = match object.get("style") {
        None => default,
        Some(word) => {
            word.as_str().ok_or_else(|| format!("`style` must be a string, not {}", json::type_name(word)))?
        }
    };
    let explode = object.get("explode").and_then(Value::as_bool).unwrap_or(word == "form");
    let style = match (location, word) {
        (ParameterLocation::Path | ParameterLocation::Header, "simple") => Style::Simple,
        (ParameterLocation::Path, "label") => Style::Label,
        (ParameterLocation::Path, "matrix") if explode && shape != Shape::Scalar => {
            return Err("the style matrix is not supported with `explode`".to_owned());
        }
        (ParameterLocation::Path, "matrix") => Style::Simple,
        (ParameterLocation::Query | ParameterLocation::Cookie | ParameterLocation::Form, "form") => Style::Form,
        (ParameterLocation::Query | ParameterLocation::Form, "spaceDelimited") => Style::SpaceDelimited,
        (ParameterLocation::Query | ParameterLocation::Form, "pipeDelimited") => Style::PipeDelimited,
        (ParameterLocation::Query | ParameterLocation::Form, "deepObject") => Style::DeepObject,
        _ => {
            return Err(format!(
                "the style \"{}\" is not valid for a {} parameter",
                json::shorten(word, 40),
                location.word()
            ));
        }
    };
    Ok(ValueStyle { style, explode })
}

/// Reads `style` and `explode` of a form field from its `encoding`.
///
/// # Errors
/// Returns the reason if the style is not valid for a form.
pub fn form_style(encoding: &Map<String, Value>) -> Result<ValueStyle, String> {
    new_style(encoding, ParameterLocation::Form, Shape::Composite)
}

/// Reads `collectionFormat` of 2.0.
fn old_style(object: &Map<String, Value>, location: ParameterLocation) -> Result<ValueStyle, String> {
    let joined = |style| Ok(ValueStyle { style, explode: false });
    match (text(object, "collectionFormat").unwrap_or("csv"), location) {
        ("csv", _) => joined(Style::Simple),
        ("ssv", _) => joined(Style::SpaceDelimited),
        ("tsv", _) => joined(Style::TabDelimited),
        ("pipes", _) => joined(Style::PipeDelimited),
        ("multi", ParameterLocation::Query | ParameterLocation::Form) => {
            Ok(ValueStyle { style: Style::Form, explode: true })
        }
        (word, _) => {
            let word = json::shorten(word, 40);
            Err(format!("the collectionFormat \"{word}\" is not valid for a {} parameter", location.word()))
        }
    }
}

fn has_nested(document: &Value, object: &Map<String, Value>) -> bool {
    let schema = object.get("schema").and_then(|schema| reference::object(document, schema, "").ok());
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let is_nested = |property: &Value| {
        let kind = reference::object(document, property, "").ok().and_then(|property| property.get("type"));
        kind.is_some_and(|kind| kind == "array" || kind == "object")
    };
    schema.is_some_and(|schema| schema.get("type").is_some_and(|kind| kind == "array"))
        || properties.is_some_and(|properties| properties.values().any(is_nested))
}

/// Escapes the text of a path for a template.
pub fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
