//! Builds the request of one tool: its arguments, and where each of them is sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::names::Unique;
use super::schema::Bundler;
use crate::domain::serialization::ValueStyle;

/// The name of the argument for the request body.
pub const BODY: &str = "body";

/// The request of a tool under construction.
pub struct Request<'d> {
    /// Converts the schemas of the arguments.
    pub bundler: Bundler<'d>,
    /// The template of each path parameter, by its name.
    pub path: BTreeMap<String, String>,
    /// The templates of the query parameters.
    pub query: Map<String, Value>,
    /// The templates of the headers.
    pub headers: Map<String, Value>,
    /// The templates of the cookies.
    pub cookies: Map<String, Value>,
    /// The template of the body.
    pub body: Option<Value>,
    /// The type of the body, if the template does not imply it.
    pub body_type: Option<&'static str>,
    /// The serialization of arguments that are arrays or objects.
    pub styles: BTreeMap<String, ValueStyle>,
    /// The names of secrets, by the arguments that they preset.
    pub secrets: BTreeMap<String, String>,
    /// The deviations from the document.
    pub warnings: Vec<String>,
    names: Unique,
    properties: Map<String, Value>,
    required: BTreeSet<String>,
}

impl<'d> Request<'d> {
    /// Creates an empty request.
    pub fn new(bundler: Bundler<'d>) -> Self {
        Self {
            bundler,
            path: BTreeMap::new(),
            query: Map::new(),
            headers: Map::new(),
            cookies: Map::new(),
            body: None,
            body_type: None,
            styles: BTreeMap::new(),
            secrets: BTreeMap::new(),
            warnings: Vec::new(),
            names: Unique::default(),
            properties: Map::new(),
            required: BTreeSet::new(),
        }
    }

    /// Reserves the argument name of the body.
    pub fn reserve_body(&mut self) {
        self.names.argument(BODY, BODY);
    }

    /// Adds the body as an argument.
    pub fn add_body(&mut self, schema: Value, description: Option<&str>, required: bool) {
        self.add_property(BODY.to_owned(), schema, description, required);
    }

    /// Adds an argument for a parameter at a location. Returns the name of the argument.
    pub fn add(
        &mut self,
        parameter: &str,
        location: &str,
        schema: Value,
        description: Option<&str>,
        required: bool,
    ) -> String {
        let name = self.names.argument(parameter, location);
        self.add_property(name.clone(), schema, description, required);
        name
    }

    /// Adds an argument that is preset with a secret and hidden from the model. Returns the name of the argument.
    pub fn add_secret(&mut self, location: &str, secret: &str) -> String {
        let name = self.names.argument(&format!("auth_{location}"), "auth");
        self.secrets.insert(name.clone(), secret.to_owned());
        name
    }

    fn add_property(&mut self, name: String, schema: Value, description: Option<&str>, required: bool) {
        // The schema `true` cannot have a description.
        let mut schema = if schema == Value::Bool(true) { json!({}) } else { schema };
        if let (Some(members), Some(description)) = (schema.as_object_mut(), description) {
            let own = members.get("description").and_then(Value::as_str).unwrap_or_default();
            let both = match own {
                own if own.is_empty() || description.contains(own) => description.to_owned(),
                own if own.contains(description) => own.to_owned(),
                own => format!("{description} {own}"),
            };
            members.insert("description".to_owned(), both.into());
        }
        if required {
            self.required.insert(name.clone());
        }
        self.properties.insert(name, schema);
    }

    /// Returns the schema of all arguments; it forbids other arguments.
    ///
    /// # Errors
    /// Returns the reason if a referenced schema is invalid.
    pub fn input_schema(self) -> Result<Value, String> {
        let required: Vec<&String> = self.properties.keys().filter(|name| self.required.contains(*name)).collect();
        let mut schema = json!({"type": "object", "properties": self.properties});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema["additionalProperties"] = Value::Bool(false);
        let definitions = self.bundler.definitions()?;
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        Ok(schema)
    }
}

/// Returns the template that consists of this argument.
pub fn placeholder(name: &str) -> Value {
    format!("{{{name}}}").into()
}
