//! A result that is posted over the API, with a digest that tells equal results from different ones.

use std::io::{self, Write};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use toolpost_core::domain::ToolOutput;

/// A posted result.
#[derive(Debug, Clone, PartialEq)]
pub struct PostedResult {
    /// The result.
    pub output: ToolOutput,
    /// The digest of the result. The ended call keeps it, so that every node can say whether a result is the call's. It is 0
    /// if nothing was posted: the call ended with a failure of its own.
    pub digest: i64,
}

impl From<ToolOutput> for PostedResult {
    fn from(output: ToolOutput) -> Self {
        Self { digest: digest_of(&output), output }
    }
}

/// Returns the first 64 bits of the SHA-256 digest of a result. A client that repeats its request posts the same bytes.
fn digest_of(output: &ToolOutput) -> i64 {
    let mut hasher = Sha256::new();
    match output {
        ToolOutput::Outcome(_) => return 0,
        ToolOutput::Nothing => hasher.update([0]),
        ToolOutput::Text(text) => {
            hasher.update([1]);
            hasher.update(text);
        }
        ToolOutput::Json(value) | ToolOutput::Corrected(value, _) => add_json(&mut hasher, value),
        ToolOutput::Data(value) => add_json(&mut hasher, value),
        ToolOutput::Image { bytes, mime_type } => {
            hasher.update([3]);
            hasher.update(mime_type);
            hasher.update([0]);
            hasher.update(bytes);
        }
    }
    let digest = hasher.finalize();
    let digest = digest.first_chunk().map_or(1, |first| i64::from_be_bytes(*first));
    if digest == 0 { 1 } else { digest }
}

fn add_json(hasher: &mut Sha256, value: &Value) {
    hasher.update([2]);
    // The writer cannot fail, and all map keys are strings.
    let _ = serde_json::to_writer(io::BufWriter::with_capacity(256, HashWriter(hasher)), value);
}

struct HashWriter<'a>(&'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn equal_results_have_equal_digests() {
        let value = json!({"output": "x", "n": [1.5, null]});
        let image = |mime_type: &str| ToolOutput::Image { bytes: vec![1], mime_type: mime_type.to_owned() };
        let all = [
            ToolOutput::Nothing,
            ToolOutput::Json(json!(null)),
            ToolOutput::Json(json!("")),
            ToolOutput::Text(String::new()),
            ToolOutput::Text("null".to_owned()),
            ToolOutput::Json(value.clone()),
            image("image/png"),
            image("image/gif"),
        ];
        let digests: std::collections::BTreeSet<i64> = all.iter().map(digest_of).collect();
        assert!(digests.len() == all.len() && !digests.contains(&0));
        assert_eq!(digest_of(&ToolOutput::Json(value.clone())), digest_of(&ToolOutput::Data(Arc::new(value))));
        let long = json!("x".repeat(10_000));
        assert_eq!(digest_of(&ToolOutput::Json(long.clone())), digest_of(&ToolOutput::Json(long)));
    }
}
