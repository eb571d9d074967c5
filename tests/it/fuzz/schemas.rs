//! Arbitrary schemas and arguments: each schema is accepted or rejected, and an accepted schema is enforced.

use std::sync::Arc;

use toolpost::domain::json;
use toolpost::schema::lower::{Target as Vendor, lower};
use toolpost::schema::{Role, compile};

use super::driver::Target;

/// Checks an input: the schema in the first line, arguments in the others.
fn take(input: &[u8]) -> Result<(), String> {
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let Ok(schema) = json::parse(lines.next().unwrap_or_default()) else { return Ok(()) };
    let Ok(compiled) = compile(&schema, Role::Input) else { return Ok(()) };
    for vendor in [Vendor::OpenAi, Vendor::OpenAiStrict, Vendor::Anthropic, Vendor::Gemini] {
        let lowered = || lower(&schema, vendor).map(|lowered| lowered.schema.to_string());
        let (one, again) = (lowered(), lowered());
        if one != again {
            return Err(format!("{vendor:?}: {one:?} is not {again:?}"));
        }
    }
    let Ok(arguments) = json::parse(lines.next().unwrap_or_default()) else { return Ok(()) };
    let arguments = Arc::new(arguments);
    match compiled.check(&arguments, true) {
        Ok(checked) if !compiled.is_valid(&checked.arguments) => {
            Err(format!("{arguments} became {}, which is not valid", checked.arguments))
        }
        Err(violations) if violations.is_empty() || violations.len() > 20 => {
            Err(format!("{} violations are told", violations.len()))
        }
        Err(_) if compiled.is_valid(&arguments) => Err("what is valid was refused".to_owned()),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[test]
fn schemas_and_arguments_are_accepted_or_rejected_with_a_reason() {
    let words = &[
        "\"type\":\"object\"",
        "\"properties\":{",
        "\"$ref\":\"#\"",
        "\"$defs\":{\"a\":",
        "\"anyOf\":[",
        "\"pattern\":\"(a*)*\"",
        "\"enum\":[",
        "\"default\":",
        "\"required\":[\"a\"]",
        "\"additionalProperties\":false",
        "\"const\":null",
        "\"minimum\":1e308",
        "\"$schema\":\"http://json-schema.org/draft-07/schema#\"",
        "\"multipleOf\":0.1",
        "\"format\":\"date\"",
        "true",
        "null",
        "[]",
        "{}",
        "\"1\"",
        "9223372036854775808",
        "\\u0000",
    ];
    Target { name: "schemas", beside: &[], words, inputs: 400, take }.run();
}
