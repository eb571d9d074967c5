//! Conversion of tool results to [`ToolOutput`].

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::ToolError;
use toolpost_core::domain::{ContentBlock, Outcome, ToolOutput};

/// A type that a tool can return.
///
/// | Rust | for the model | for programs (`structured`) |
/// |---|---|---|
/// | text | the text unchanged | – |
/// | numbers, `bool` | as in JSON | the value |
/// | [`Json<T>`](Json) | compact JSON | the value |
/// | [`Value`] | as for every executor: `{"output": …}` is an outcome, `{"success": false}` an error | |
/// | `()`, `None` | `Done` | – |
/// | [`ContentBlock`]s | the blocks | – |
/// | [`Outcome`], [`ToolOutput`] | unchanged | unchanged |
pub trait IntoToolOutput: Send + 'static {
    /// Converts the value to a tool output.
    ///
    /// # Errors
    /// Returns an error if the value cannot be serialized as JSON.
    fn into_answer(self) -> Result<ToolOutput, ToolError>;
}

/// A value that is always `structured` data, with its compact JSON as the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Json<T>(pub T);

impl<T: Serialize + Send + 'static> IntoToolOutput for Json<T> {
    fn into_answer(self) -> Result<ToolOutput, ToolError> {
        let value = serde_json::to_value(self.0)
            .map_err(|error| ToolError::new(format!("the result cannot be serialized as JSON: {error}")))?;
        Ok(ToolOutput::Data(Arc::new(value)))
    }
}

impl<T: IntoToolOutput> IntoToolOutput for Option<T> {
    fn into_answer(self) -> Result<ToolOutput, ToolError> {
        self.map_or(Ok(ToolOutput::Nothing), T::into_answer)
    }
}

/// Implements [`IntoToolOutput`] for types with a simple conversion.
macro_rules! impl_into_tool_output {
    ($($type:ty: $value:ident => $answer:expr;)*) => {$(
        impl IntoToolOutput for $type {
            fn into_answer(self) -> Result<ToolOutput, ToolError> {
                let $value = self;
                Ok($answer)
            }
        }
    )*};
}

impl_into_tool_output! {
    (): _nothing => ToolOutput::Nothing;
    String: text => ToolOutput::Text(text);
    &'static str: text => ToolOutput::Text(text.to_owned());
    Cow<'static, str>: text => ToolOutput::Text(text.into_owned());
    Value: value => ToolOutput::Json(value);
    Map<String, Value>: object => ToolOutput::Json(Value::Object(object));
    ContentBlock: block => ToolOutput::Outcome(Box::new(Outcome::blocks(vec![block])));
    Vec<ContentBlock>: blocks => ToolOutput::Outcome(Box::new(Outcome::blocks(blocks)));
    Outcome: outcome => ToolOutput::Outcome(Box::new(outcome));
    ToolOutput: answer => answer;
    bool: value => ToolOutput::Json(value.into());
    i8: number => ToolOutput::Json(number.into());
    i16: number => ToolOutput::Json(number.into());
    i32: number => ToolOutput::Json(number.into());
    i64: number => ToolOutput::Json(number.into());
    isize: number => ToolOutput::Json(number.into());
    u8: number => ToolOutput::Json(number.into());
    u16: number => ToolOutput::Json(number.into());
    u32: number => ToolOutput::Json(number.into());
    u64: number => ToolOutput::Json(number.into());
    usize: number => ToolOutput::Json(number.into());
    f32: number => f64::from(number).into_answer()?;
    f64: number => ToolOutput::Json(finite(number)?);
}

/// Rejects infinities and NaN, which JSON cannot represent and `null` would misrepresent.
fn finite(number: f64) -> Result<Value, ToolError> {
    let number = serde_json::Number::from_f64(number);
    number.map(Value::Number).ok_or_else(|| ToolError::new("the result is not a finite number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_result_type_is_converted() {
        let of = |answer: Result<ToolOutput, ToolError>| answer.unwrap();
        assert_eq!(of(().into_answer()), ToolOutput::Nothing);
        assert_eq!(of(None::<u8>.into_answer()), ToolOutput::Nothing);
        assert_eq!(of("a".into_answer()), ToolOutput::Text("a".into()));
        assert_eq!(of(Some(7_u64).into_answer()), ToolOutput::Json(json!(7)));
        assert_eq!(of(true.into_answer()), ToolOutput::Json(json!(true)));
        assert_eq!(of(0.5.into_answer()), ToolOutput::Json(json!(0.5)));
        let error_like = json!({"success": false});
        assert_eq!(of(Json(error_like.clone()).into_answer()), ToolOutput::Data(Arc::new(error_like.clone())));
        assert_eq!(of(error_like.clone().into_answer()), ToolOutput::Json(error_like));
        assert_eq!(of(Outcome::text("a").into_answer()), ToolOutput::Outcome(Box::new(Outcome::text("a"))));
    }

    #[test]
    fn values_that_json_cannot_represent_are_errors() {
        assert_eq!(f64::NAN.into_answer().unwrap_err().message(), "the result is not a finite number");
        let unwritable = Json(std::collections::BTreeMap::from([((1, 2), 3)]));
        assert!(unwritable.into_answer().unwrap_err().message().contains("key must be a string"));
    }
}
