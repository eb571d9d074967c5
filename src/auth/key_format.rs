//! The format of API keys: `tp_` and 32 random bytes in base64url (RFC 4648, section 5). Event tickets begin with
//! `tpt_` instead.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The prefix of every key.
const PREFIX: &str = "tp_";
/// The prefix of every ticket.
const TICKET_PREFIX: &str = "tpt_";
/// Number of random bytes of a key or ticket.
const BYTES: usize = 32;
/// Length of the part of a key that is stored and shown to identify it. The rest has more than 200 random bits.
const SHOWN_LENGTH: usize = PREFIX.len() + 8;

/// Generates a key.
///
/// # Errors
/// Returns an error if the operating system provides no random bytes.
pub fn make() -> Result<String, getrandom::Error> {
    random(PREFIX)
}

/// Generates a ticket.
///
/// # Errors
/// Returns an error if the operating system provides no random bytes.
pub fn make_ticket() -> Result<String, getrandom::Error> {
    random(TICKET_PREFIX)
}

fn random(prefix: &str) -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Returns `true` if a text has the format of a ticket.
#[must_use]
pub fn is_ticket(text: &str) -> bool {
    text.strip_prefix(TICKET_PREFIX).is_some_and(is_random)
}

fn is_random(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == BYTES)
}

/// Returns `true` if a text begins like a key.
#[must_use]
pub fn is_key(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Returns the stored prefix of a key, or `None` if the text is not a valid key.
#[must_use]
pub fn prefix_of(text: &str) -> Option<&str> {
    let random = text.strip_prefix(PREFIX)?;
    is_random(random).then(|| &text[..SHOWN_LENGTH])
}

/// Returns the stored hash of a key. Keys are random, so a slow hash is not necessary.
#[must_use]
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Compares two hashes in constant time.
#[must_use]
pub fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_keys_have_a_prefix() {
        let (one, other) = (make().unwrap(), make().unwrap());
        assert_ne!(one, other);
        assert_eq!(prefix_of(&one), Some(&one[..11]));
        assert!(is_same(&hash(&one), &hash(&one)) && !is_same(&hash(&one), &hash(&other)));
        for bad in ["", "tp_", "tp_abc", "sk-1234", &one[..45], &format!("{one}x"), "tp_é", "TP_aaaaaaaaaaa"] {
            assert_eq!(prefix_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn ticket_is_not_a_key() {
        let ticket = make_ticket().unwrap();
        assert!(is_ticket(&ticket) && !is_key(&ticket) && prefix_of(&ticket).is_none());
        assert!(!is_ticket(&make().unwrap()) && !is_ticket("tpt_") && !is_ticket(&ticket[..46]));
    }
}
