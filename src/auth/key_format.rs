//! What an API key looks like: `tp_` and 32 random bytes in base64url (RFC 4648, section 5). An event ticket begins with
//! `tpt_` instead.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every key begins with.
const MARK: &str = "tp_";
/// What every ticket begins with.
const TICKET_MARK: &str = "tpt_";
/// Random bytes of a key, and of a ticket.
const BYTES: usize = 32;
/// How much of a key is stored and shown, to tell it from others. The rest has more than 200 random bits.
const SHOWN: usize = MARK.len() + 8;

/// A new key.
///
/// # Errors
/// If the machine gives no random bytes.
pub fn make() -> Result<String, getrandom::Error> {
    random(MARK)
}

/// A new ticket.
///
/// # Errors
/// If the machine gives no random bytes.
pub fn make_ticket() -> Result<String, getrandom::Error> {
    random(TICKET_MARK)
}

fn random(mark: &str) -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{mark}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Returns `true` if a text has the shape of a ticket.
#[must_use]
pub fn is_ticket(text: &str) -> bool {
    text.strip_prefix(TICKET_MARK).is_some_and(is_random)
}

fn is_random(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == BYTES)
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
    is_random(random).then(|| &text[..SHOWN])
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

    #[test]
    fn ticket_is_no_key() {
        let ticket = make_ticket().unwrap();
        assert!(is_ticket(&ticket) && !is_key(&ticket) && prefix_of(&ticket).is_none());
        assert!(!is_ticket(&make().unwrap()) && !is_ticket("tpt_") && !is_ticket(&ticket[..46]));
    }
}
