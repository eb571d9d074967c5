//! The request of one tool in the making: its arguments, and where each of them goes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::names::Unique;
use super::schema::Bundler;
use crate::domain::serialization::ValueStyle;

/// The argument that is a request's body.
pub const BODY: &str = "body";

/// A request in the making.
pub struct Request<'d> {
    /// Makes the schemas of the arguments.
    pub bundler: Bundler<'d>,
    /// What stands for each parameter of the path, as a template.
    pub path: BTreeMap<String, String>,
    /// Query parameters.
    pub query: Map<String, Value>,
    /// Headers; their names are told apart without their case.
    pub headers: Map<String, Value>,
    /// Cookies.
    pub cookies: Map<String, Value>,
    /// The template of the body.
    pub body: Option<Value>,
    /// What the body is sent as, where the template does not say it.
    pub body_type: Option<&'static str>,
    /// How arguments are written that are arrays or objects.
    pub styles: BTreeMap<String, ValueStyle>,
    /// The names of secrets by the arguments that they are the presets of.
    pub secrets: BTreeMap<String, String>,
    /// What is not as the document has it.
    pub warnings: Vec<String>,
    names: Unique,
    properties: Map<String, Value>,
    required: BTreeSet<String>,
}

impl<'d> Request<'d> {
    /// A request without anything.
    #[must_use]
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

    /// Keeps the name of the body for it.
    pub fn reserve_body(&mut self) {
        self.names.argument(BODY, BODY);
    }

    /// Adds the body as an argument.
    pub fn add_body(&mut self, schema: Value, description: Option<&str>, required: bool) {
        self.add_property(BODY.to_owned(), schema, description, required);
    }

    /// Adds an argument for the parameter of this name and place; its own name.
    pub fn add(
        &mut self,
        parameter: &str,
        place: &str,
        schema: Value,
        description: Option<&str>,
        required: bool,
    ) -> String {
        let name = self.names.argument(parameter, place);
        self.add_property(name.clone(), schema, description, required);
        name
    }

    /// Adds an argument that no model sees: a secret.
    pub fn add_secret(&mut self, place: &str, secret: &str) -> String {
        let name = self.names.argument(&format!("auth_{place}"), "auth");
        self.secrets.insert(name.clone(), secret.to_owned());
        name
    }

    fn add_property(&mut self, name: String, schema: Value, description: Option<&str>, required: bool) {
        // `true` says nothing, and has no room for a description.
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

    /// The schema of all arguments. Nothing else can be given.
    ///
    /// # Errors
    /// A schema that one of them refers to and that is none.
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

/// The template that is this argument.
#[must_use]
pub fn placeholder(name: &str) -> Value {
    format!("{{{name}}}").into()
}
