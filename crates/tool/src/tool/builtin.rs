//! Built-in tools that are always available, one per file.

use super::BuiltinTool;
use toolpost_core::domain::Clock;

pub mod calculate;
pub mod current_time;
pub mod echo;
pub mod wait;

pub use calculate::Calculate;
pub use current_time::CurrentTime;
pub use echo::Echo;
pub use wait::Wait;

/// The category of the built-in tools.
const CATEGORY: &str = "builtin";

/// Creates the built-in tools that need only a clock, sorted by name.
#[must_use]
pub fn standard(clock: &Clock) -> Vec<BuiltinTool> {
    vec![
        BuiltinTool::new(Calculate),
        BuiltinTool::new(CurrentTime(clock.clone())),
        Echo::tool(),
        BuiltinTool::new(Wait),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolpost_core::domain::tool::is_valid_name;
    use toolpost_core::domain::{ExecutorSpec, Time};

    #[test]
    fn every_builtin_has_a_full_definition() {
        for tool in standard(&Clock::manual(Time(0))) {
            let definition = tool.definition;
            let name = definition.name.as_str();
            assert!(is_valid_name(name));
            assert!(definition.title.is_some() && !definition.description.is_empty(), "{name}");
            assert!(!definition.examples.is_empty(), "{name}");
            assert_eq!(definition.category.as_deref(), Some("builtin"), "{name}");
            assert_eq!(definition.executor, ExecutorSpec::Builtin { name: name.to_owned() });
            let annotations = definition.annotations;
            assert!(annotations.read_only && !annotations.destructive && !annotations.open_world, "{name}");
            assert_eq!(definition.input_schema["type"], "object", "{name}");
            let closed = definition.input_schema.get("additionalProperties") == Some(&false.into());
            assert_eq!(closed, name != "echo", "{name}");
        }
    }

    #[test]
    fn builtin_tools_are_sorted_by_name() {
        let names: Vec<_> = standard(&Clock::manual(Time(0))).into_iter().map(|tool| tool.definition.name).collect();
        assert_eq!(names, ["calculate", "current_time", "echo", "wait"]);
    }
}
