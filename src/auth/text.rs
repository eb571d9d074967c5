//! What an API key looks like: `tp_` and 32 random bytes in base64url (RFC 4648, section 5).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every key begins with.
const MARK: &str = "tp_";
/// Random bytes of a key.
const BYTES: usize = 32;
/// How much of a key is stored and shown, to tell it from others. The rest has more than 200 random bits.
const SHOWN: usize = MARK.len() + 8;

/// A new key.
///
/// # Errors
/// If the machine gives no random bytes.
pub fn make() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{MARK}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Whether a text is meant as a key.
#[must_use]
pub fn is_key(text: &str) -> bool {
    text.starts_with(MARK)
}

/// How a key begins; `None` if it is none.
#[must_use]
pub fn prefix_of(text: &str) -> Option<&str> {
    let random = text.strip_prefix(MARK)?;
    let is_whole = URL_SAFE_NO_PAD.decode(random).is_ok_and(|bytes| bytes.len() == BYTES);
    is_whole.then(|| &text[..SHOWN])
}

/// What is stored of a key. It is random enough that nobody guesses it: no slow hash is needed.
#[must_use]
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Whether these are the hashes of one key, found out in the same time whatever they are.
#[must_use]
pub fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_random_and_only_a_whole_one_is_looked_up() {
        let (one, other) = (make().unwrap(), make().unwrap());
        assert_ne!(one, other);
        assert_eq!(prefix_of(&one), Some(&one[..11]));
        assert!(is_same(&hash(&one), &hash(&one)) && !is_same(&hash(&one), &hash(&other)));
        for bad in ["", "tp_", "tp_abc", "sk-1234", &one[..45], &format!("{one}x"), "tp_é", "TP_aaaaaaaaaaa"] {
            assert_eq!(prefix_of(bad), None, "{bad}");
        }
    }
}
