//! Ids that a vendor accepts, for calls whose ids the vendor's model did not assign.

use sha2::{Digest, Sha256};

use crate::domain::Vendor;

/// Returns the id if the vendor accepts it, or a hash of it as a replacement.
pub(super) fn accepted(vendor: Vendor, id: &str) -> String {
    let fits = match vendor {
        Vendor::OpenAi => id.chars().count() <= 40,
        Vendor::OpenAiResponses => id.chars().count() <= 64,
        Vendor::Anthropic => id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
        Vendor::Gemini => true,
    };
    if fits {
        return id.to_owned();
    }
    let hash = Sha256::digest(id.as_bytes());
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("call_{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VENDORS: [(Vendor, usize); 3] =
        [(Vendor::OpenAi, 40), (Vendor::OpenAiResponses, 64), (Vendor::Anthropic, usize::MAX)];

    #[test]
    fn accepted_id_is_unchanged() {
        for (vendor, _) in VENDORS {
            for id in ["call_0", "toolu_01A09q90qw90lq917835lq9", "0197b1f6-3b56-7d6e-8c44-2f1de1d2ab01"] {
                assert_eq!(accepted(vendor, id), id);
            }
        }
        assert_eq!(accepted(Vendor::Gemini, "any thing.at/all"), "any thing.at/all");
    }

    #[test]
    fn rejected_id_is_replaced_deterministically() {
        let long = "x".repeat(65);
        for (vendor, longest) in VENDORS {
            let refused = match vendor {
                Vendor::Anthropic => ["a.b", "a b", "ü"].map(str::to_owned),
                _ => [long.clone(), format!("{long}y"), "ü".repeat(70)],
            };
            let given: Vec<String> = refused.iter().map(|id| accepted(vendor, id)).collect();
            for (id, given) in refused.iter().zip(&given) {
                assert!(given.len() <= longest && given.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
                assert_eq!(&accepted(vendor, id), given);
            }
            let distinct: std::collections::HashSet<_> = given.iter().collect();
            assert_eq!(distinct.len(), given.len());
        }
    }
}
