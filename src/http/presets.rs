//! `/tools/{name}/presets`: argument values supplied by the operator. Values are write-only.

use std::collections::BTreeMap;

use axum::extract::Path;
use serde_json::Value;

use super::responses::{Unavailable, UnknownTool};
use super::{Api, AppState, BodyErrors, FieldError, HttpResult, JsonBody, Problem, Shared, reply, tools};
use crate::access::Access;
use crate::domain::Preset;
use crate::domain::json::{pointer_token, type_name};
use crate::domain::preset::{PresetShape, PresetSource};
use crate::executor::secrets::is_valid_secret_name;
use crate::executor::vault::{SealContext, VaultError};
use crate::registry::{ToolRecord, presets};
use toolpost_core::described_as;

/// Maximum size of a value, in bytes of JSON.
const MAX_VALUE_BYTES: usize = 16 * 1024;
/// Maximum number of presets per request.
const MAX_PRESETS: usize = 100;

/// Presets by argument name: names and kinds, without values.
type View = BTreeMap<String, PresetShape>;

/// A preset, or `null` to remove the stored one.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "used only by the OpenAPI document")]
enum PresetChange {
    Set(PresetShape),
    #[schema(rename = "TakenBack")]
    Remove,
}

/// Lists the presets of a tool: those of its definition, overridden by those stored here.
#[utoipa::path(get, path = "/tools/{name}/presets", operation_id = "read_presets", tag = "tools",
    security(("api_key" = ["tools"])),
    params(("name" = String, Path, example = "get_weather", description = "The tool's name")),
    responses((status = 200, description = "The presets by argument, without their values", body = View),
        UnknownTool))]
pub(super) async fn read(access: Access, Path(name): Path<String>) -> HttpResult {
    list_presets(&access, &name)
}

/// Changes of presets by argument.
enum PresetChanges {}

described_as!(PresetChanges as "PresetChanges", [PresetChange], {
    "type": "object", "additionalProperties": {"$ref": "#/components/schemas/PresetChange"}, "maxProperties": 100,
    "propertyNames": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000-\\u001F\\u007F-\\u009F]*$"}
});

/// Stores presets. Presets that are not named stay unchanged, and `null` removes one.
///
/// `{"api_key": {"value": …}}` is stored encrypted and is never returned; `{"api_key": {"secret": "MAIL_API_KEY"}}`
/// names a secret in the environment of the service. Stored presets override those of the tool's definition, starting
/// with the next call; calls that are already running keep their values. They are deleted together with the tool.
#[utoipa::path(put, path = "/tools/{name}/presets", operation_id = "put_presets", tag = "tools",
    request_body(content = inline(PresetChanges), example = json!({"unit": {"value": "C"}})),
    security(("api_key" = ["tools"])),
    params(("name" = String, Path, example = "get_weather", description = "The tool's name")),
    responses((status = 200, description = "The current presets, without their values", body = View),
        (status = 422, description = "A preset is invalid, or the service has no encryption key for stored values"),
        BodyErrors, UnknownTool, Unavailable))]
pub(super) async fn put(Api { state, access }: Api, Path(name): Path<String>, body: JsonBody) -> HttpResult {
    let entry = tools::find(&access, &name)?;
    let changes = parse_changes(body.value)?;
    let (mut written, mut faults) = (Vec::with_capacity(changes.len()), Vec::new());
    for (argument, preset) in changes {
        let pointer = format!("/{}", pointer_token(&argument));
        match to_stored(&state, &access, &entry, &argument, preset) {
            Ok(Some(preset)) => written.push((argument, preset)),
            Ok(None) => {}
            Err((member, message)) => faults.push(FieldError { pointer: format!("{pointer}{member}"), message }),
        }
    }
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    if !written.is_empty() {
        check_compiles(&state, &entry, &written).await?;
        access.store().put_presets(&entry.name, &written, state.clock.now()).await?;
        state.engine.registry().reload(access.store()).await?;
    }
    list_presets(&access, &name)
}

/// Decodes the body by hand, so that error messages never repeat a misplaced secret.
fn parse_changes(body: Value) -> HttpResult<Vec<(String, Option<PresetShape>)>> {
    let Value::Object(members) = body else {
        return Err(Problem::field("", format!("must be an object of presets, not {}", type_name(&body))));
    };
    if members.len() > MAX_PRESETS {
        return Err(Problem::field("", format!("must have at most {MAX_PRESETS} presets")));
    }
    let mut changes = Vec::with_capacity(members.len());
    for (name, preset) in members {
        let pointer = format!("/{}", pointer_token(&name));
        let preset = match preset {
            Value::Null => None,
            Value::Object(_) => {
                let wrong = |part: &str| preset.get(part).is_some_and(|part| !part.is_null() && !part.is_string());
                if let Some(part) = ["secret", "kind"].into_iter().find(|part| wrong(part)) {
                    return Err(Problem::field(format!("{pointer}/{part}"), "must be a string"));
                }
                let read = serde_json::from_value(preset);
                Some(read.map_err(|_| {
                    Problem::field(
                        &pointer,
                        "must have `value` or `secret`, optionally `overridable` (a boolean), and nothing else",
                    )
                })?)
            }
            _ => return Err(Problem::field(pointer, r#"must be {"value": …}, {"secret": "NAME"} or null"#)),
        };
        changes.push((name, preset));
    }
    Ok(changes)
}

/// The change of one preset: set, or removed (`Some(None)`). `None` if the request repeats the stored one.
type PresetWrite = Option<Option<Preset>>;

/// Converts a preset to its stored form.
///
/// # Errors
/// Returns the position and the message of the fault.
fn to_stored(
    state: &Shared,
    access: &Access,
    tool: &ToolRecord,
    name: &str,
    preset: Option<PresetShape>,
) -> Result<PresetWrite, (&'static str, String)> {
    if !presets::is_valid_name(name) {
        return Err(("", "the name must have 1 to 128 characters and no control characters".to_owned()));
    }
    let Some(shape) = preset else { return Ok(Some(None)) };
    let Preset { origin, overridable } = shape.try_into().map_err(|fault: &str| ("", fault.to_owned()))?;
    let origin = match origin {
        PresetSource::Stored(_) => return Ok(None),
        PresetSource::Secret(secret) if is_valid_secret_name(&secret) => PresetSource::Secret(secret),
        PresetSource::Secret(_) => {
            let message = "the name of a secret must have 1 to 128 letters, digits and underscores, as in MAIL_API_KEY";
            return Err(("/secret", message.to_owned()));
        }
        PresetSource::Value(value) => {
            let value = value.to_string();
            if value.len() > MAX_VALUE_BYTES {
                return Err(("/value", format!("must have at most {MAX_VALUE_BYTES} bytes")));
            }
            let context = SealContext { tenant: access.tenant(), tool: &tool.name, name };
            let sealed = state.vault.seal(value.as_bytes(), &context);
            PresetSource::Stored(Some(sealed.map_err(|error: VaultError| ("/value", error.to_string()))?))
        }
    };
    Ok(Some(Some(Preset { origin, overridable })))
}

/// Checks that the tool is valid with the presets. Schemas can be slow to compile, so this runs on a blocking thread.
async fn check_compiles(state: &AppState, tool: &ToolRecord, written: &[(String, Option<Preset>)]) -> HttpResult<()> {
    let mut definition = tool.declared().map_err(|_| Problem::internal())?;
    for (name, preset) in written {
        match preset {
            Some(preset) => drop(definition.presets.insert(name.clone(), preset.clone())),
            None => drop(definition.presets.remove(name)),
        }
    }
    let registry = state.engine.registry().clone();
    let fetched = tool.fetched();
    Ok(tokio::task::spawn_blocking(move || registry.try_with(&definition, fetched)).await??)
}

fn list_presets(access: &Access, name: &str) -> HttpResult {
    Ok(reply::ok(&tools::find(access, name)?.definition().presets))
}
