//! Lists of ports. In the environment a list of one port is a number.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Ports {
    One(Port),
    Many(Vec<Port>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Port {
    Number(i64),
    Text(String),
}

/// Parses ports.
///
/// # Errors
/// Returns an error that names the first value that is not a port.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u16>, D::Error> {
    let ports = Ports::deserialize(deserializer).map_err(|_| D::Error::custom("must be a list of ports"))?;
    let ports = match ports {
        Ports::One(port) => vec![port],
        Ports::Many(ports) => ports,
    };
    ports.iter().map(|port| number(port).map_err(D::Error::custom)).collect()
}

fn number(port: &Port) -> Result<u16, String> {
    let (number, shown) = match port {
        Port::Number(number) => (u16::try_from(*number).ok(), number.to_string()),
        Port::Text(text) => (text.trim().parse().ok(), format!("{text:?}")),
    };
    number.ok_or_else(|| format!("a port must be a number from 0 to 65535, got {shown}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(value: Value) -> Result<Vec<u16>, String> {
        read(value).map_err(|error| error.to_string())
    }

    #[test]
    fn ports_are_read_as_files_and_the_environment_give_them() {
        assert_eq!(of(json!([])), Ok(Vec::new()));
        assert_eq!(of(json!([25, 6379])), Ok(vec![25, 6379]));
        assert_eq!(of(json!(6379)), Ok(vec![6379]));
        assert_eq!(of(json!(["25", " 6379"])), Ok(vec![25, 6379]));
    }

    #[test]
    fn value_that_is_not_a_port_is_named() {
        for (value, shown) in [(json!([65536]), "65536"), (json!(-1), "-1"), (json!(["ssh"]), "\"ssh\"")] {
            assert!(of(value).unwrap_err().ends_with(&format!("got {shown}")), "{shown}");
        }
        assert!(of(json!({})).is_err());
    }
}
