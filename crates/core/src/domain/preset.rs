//! Presets: argument values that the operator supplies and that are hidden from the model.
//!
//! Neither serialization nor `Debug` reveals the value of a preset. Only its form for the storage of definitions does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Presets by argument name.
pub type Presets = BTreeMap<String, Preset>;

/// A preset of an argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "PresetShape", try_from = "PresetShape")]
pub struct Preset {
    /// The source of the value.
    pub origin: PresetSource,
    /// Whether the model sees the argument and can override the value.
    pub overridable: bool,
}

/// The source of a preset's value.
#[derive(Clone, PartialEq)]
pub enum PresetSource {
    /// A value in the definition.
    Value(Value),
    /// The secret of this name.
    Secret(String),
    /// A value that is stored over the API; `None` if it is not stored yet or not known here.
    Stored(Option<SealedValue>),
}

/// An encrypted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    /// The id of the key that decrypts it.
    pub key_id: String,
    /// Nonce, ciphertext and tag.
    pub bytes: Vec<u8>,
}

/// The kind of a preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PresetKind {
    /// The value is in the definition.
    Value,
    /// The value is a secret of the service.
    Secret,
    /// The value is stored over the API, or must still be stored.
    Stored,
}

/// A preset as declared, or as returned without its value.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Preset)]
pub struct PresetShape {
    /// The kind of the preset. Only in responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PresetKind>,
    /// The value itself; never in an answer. Without one a preset keeps the value that it has.
    #[serde(default, skip_serializing, deserialize_with = "present")]
    pub value: Option<Value>,
    /// The name of a secret: `X` is `TOOLPOST_SECRET_X`, or the line `X=…` of the secrets file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(extensions(
        ("x-is" = json!({"anyOf": [{"$ref": "#/components/schemas/SecretName"}, {"type": "null"}]})),
        // A field that is never serialized has no schema of its own.
        ("x-together" = json!({
            "properties": {"value": {"writeOnly": true,
                "description": "The value itself; never in an answer. Without one a preset keeps the value that it has."}},
            "not": {"required": ["value", "secret"], "properties": {"secret": {"type": "string"}}}
        }))
    ))]
    pub secret: Option<String>,
    /// Shows the argument to the model, with the preset as its default.
    #[serde(default)]
    pub overridable: bool,
}

/// Keeps `null` as a present value.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Preset {
    /// Creates a preset value that only the tool sees.
    #[must_use]
    pub fn value(value: impl Into<Value>) -> Self {
        Self { origin: PresetSource::Value(value.into()), overridable: false }
    }

    /// Creates a preset from a secret that only the tool sees.
    #[must_use]
    pub fn secret(name: impl Into<String>) -> Self {
        Self { origin: PresetSource::Secret(name.into()), overridable: false }
    }

    /// Makes the preset the default of an argument that the model sees.
    #[must_use]
    pub fn overridable(self) -> Self {
        Self { overridable: true, ..self }
    }

    /// Returns the kind of the preset.
    #[must_use]
    pub fn kind(&self) -> PresetKind {
        match self.origin {
            PresetSource::Value(_) => PresetKind::Value,
            PresetSource::Secret(_) => PresetKind::Secret,
            PresetSource::Stored(_) => PresetKind::Stored,
        }
    }

    /// Returns the declared form with its value, for the storage of definitions.
    #[must_use]
    pub fn to_stored(&self) -> Value {
        match &self.origin {
            PresetSource::Value(value) => json!({"value": value, "overridable": self.overridable}),
            PresetSource::Secret(name) => json!({"secret": name, "overridable": self.overridable}),
            PresetSource::Stored(_) => json!({"overridable": self.overridable}),
        }
    }
}

impl std::fmt::Debug for PresetSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Value(_) => "Value",
            Self::Secret(_) => "Secret",
            Self::Stored(_) => "Stored",
        })
    }
}

impl From<Preset> for PresetShape {
    fn from(preset: Preset) -> Self {
        let kind = Some(preset.kind());
        let secret = match preset.origin {
            PresetSource::Secret(name) => Some(name),
            PresetSource::Value(_) | PresetSource::Stored(_) => None,
        };
        Self { kind, value: None, secret, overridable: preset.overridable }
    }
}

impl TryFrom<PresetShape> for Preset {
    type Error = &'static str;

    fn try_from(shape: PresetShape) -> Result<Self, Self::Error> {
        let origin = match (shape.value, shape.secret) {
            (Some(_), Some(_)) => return Err("a preset must have either a `value` or a `secret`"),
            (Some(value), None) => PresetSource::Value(value),
            (None, Some(name)) => PresetSource::Secret(name),
            (None, None) => PresetSource::Stored(None),
        };
        Ok(Self { origin, overridable: shape.overridable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(preset: Value) -> Result<Preset, serde_json::Error> {
        serde_json::from_value(preset)
    }

    #[test]
    fn preset_is_parsed_in_every_form_and_shown_without_its_value() {
        for (declared, shown) in [
            (json!({"value": "v-hidden"}), json!({"kind": "value", "overridable": false})),
            (json!({"value": null}), json!({"kind": "value", "overridable": false})),
            (json!({"value": "v-hidden", "overridable": true}), json!({"kind": "value", "overridable": true})),
            (json!({"secret": "KEY"}), json!({"kind": "secret", "secret": "KEY", "overridable": false})),
            (json!({}), json!({"kind": "stored", "overridable": false})),
        ] {
            let preset = read(declared).unwrap();
            assert_eq!(serde_json::to_value(&preset).unwrap(), shown);
            assert!(!format!("{preset:?}").contains("hidden"));
            assert_eq!(read(preset.to_stored()).unwrap(), preset, "the stored form is the same preset");
        }
        assert!(read(json!({"value": 1, "secret": "X"})).is_err());
        assert!(read(json!({"vlaue": 1})).is_err());
    }
}
