//! Arguments that the operator gives a tool, so that no model has to, or can.
//!
//! Written out or shown by `Debug`, a preset never tells its value: [`Preset::told`] is the one way to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Presets by the name of the argument.
pub type Presets = BTreeMap<String, Preset>;

/// One preset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "PresetShape", try_from = "PresetShape")]
pub struct Preset {
    /// Where its value comes from.
    pub origin: PresetSource,
    /// The model sees the argument and may give another value.
    pub overridable: bool,
}

/// Where a preset's value comes from.
#[derive(Clone, PartialEq)]
pub enum PresetSource {
    /// It stands here.
    Value(Value),
    /// The secret of this name.
    Secret(String),
    /// It was written over the API; `None` as long as it was not, or where that is not known.
    Stored(Option<Sealed>),
}

/// An encrypted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The key that opens it.
    pub key_id: String,
    /// Nonce, ciphertext and tag.
    pub bytes: Vec<u8>,
}

/// What kind of preset it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PresetKind {
    /// Its value stands in the definition.
    Value,
    /// It is a secret of the service's environment.
    Secret,
    /// Its value was, or is to be, written over the API.
    Stored,
}

/// A preset as it is declared and as it is shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Preset)]
pub struct PresetShape {
    /// Only in answers: what kind it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PresetKind>,
    /// The value itself; never in an answer. Without one a preset keeps the value that it has.
    #[serde(default, skip_serializing, deserialize_with = "present")]
    #[schema(value_type = Option<Value>, write_only)]
    pub value: Option<Value>,
    /// The name of a secret: `X` is `TOOLPOST_SECRET_X`, or the line `X=…` of the secrets file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The model sees the argument, and the preset is only its default.
    #[serde(default)]
    pub overridable: bool,
}

/// A null is a value.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Preset {
    /// A value that only the tool sees.
    #[must_use]
    pub fn value(value: impl Into<Value>) -> Self {
        Self { origin: PresetSource::Value(value.into()), overridable: false }
    }

    /// A secret that only the tool sees.
    #[must_use]
    pub fn secret(name: impl Into<String>) -> Self {
        Self { origin: PresetSource::Secret(name.into()), overridable: false }
    }

    /// The same, only as the default of an argument that the model sees.
    #[must_use]
    pub fn overridable(self) -> Self {
        Self { overridable: true, ..self }
    }

    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> PresetKind {
        match self.origin {
            PresetSource::Value(_) => PresetKind::Value,
            PresetSource::Secret(_) => PresetKind::Secret,
            PresetSource::Stored(_) => PresetKind::Stored,
        }
    }

    /// As it is declared, with its value; for the place where definitions are kept.
    #[must_use]
    pub fn told(&self) -> Value {
        match &self.origin {
            PresetSource::Value(value) => json!({"value": value, "overridable": self.overridable}),
            PresetSource::Secret(name) => json!({"secret": name, "overridable": self.overridable}),
            PresetSource::Stored(_) => json!({"overridable": self.overridable}),
        }
    }
}

/// [`Preset::told`] of all.
#[must_use]
pub fn told(presets: &Presets) -> Map<String, Value> {
    presets.iter().map(|(name, preset)| (name.clone(), preset.told())).collect()
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
            (Some(_), Some(_)) => return Err("a preset has a `value` or a `secret`, not both"),
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
    fn a_preset_is_read_in_every_form_and_shown_without_its_value() {
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
            assert_eq!(read(preset.told()).unwrap(), preset, "what is kept is the same");
        }
        assert!(read(json!({"value": 1, "secret": "X"})).is_err());
        assert!(read(json!({"vlaue": 1})).is_err());
    }
}
