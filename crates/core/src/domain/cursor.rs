//! The places of events: shards, positions within them, and cursors over all shards.
//!
//! A shard is an independent sequence of commits. A position is one number that contains its shard, so positions of one
//! shard are ordered and positions of different shards never collide.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// Number of low bits of a position that count the events of its shard.
const NUMBER_BITS: u32 = 48;
/// Number of low bits of a call's id that name its shard.
const SHARD_BITS: u32 = 12;
/// Maximum length of a cursor's text, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// An independent sequence of commits with positions of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u16);

impl Shard {
    /// Number of shards that can exist.
    pub const COUNT: u16 = 1 << SHARD_BITS;

    /// Returns the shard with this number, or `None` if there is no such shard.
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// Returns the number of the shard.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// Returns the shard that the id of a call names.
    #[must_use]
    pub fn of_call(id: Uuid) -> Self {
        Self((id.as_u128() & u128::from(Self::COUNT - 1)) as u16)
    }

    /// Returns the id with this shard in its last 12 bits.
    #[must_use]
    pub fn id_within(self, id: Uuid) -> Uuid {
        Uuid::from_u128(id.as_u128() & !u128::from(Self::COUNT - 1) | u128::from(self.0))
    }

    /// Returns the shard of a position.
    #[must_use]
    pub fn of_position(pos: i64) -> Self {
        Self((pos >> NUMBER_BITS) as u16 & (Self::COUNT - 1))
    }

    /// Returns the position before the first event of the shard.
    #[must_use]
    pub fn start(self) -> i64 {
        i64::from(self.0) << NUMBER_BITS
    }

    /// Returns the highest position that the shard can have.
    #[must_use]
    pub fn end(self) -> i64 {
        self.start() | number_mask()
    }
}

fn number_mask() -> i64 {
    (1 << NUMBER_BITS) - 1
}

/// A place in the event streams of all shards: in each shard, the position up to which events are seen.
///
/// Its text is the `id:` of events. It is the number of the position if only shard 0 has events, and otherwise a list
/// such as `0:12,3:7`. To clients it is opaque.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// One position for each shard with a seen event, in ascending order.
    positions: Vec<i64>,
}

impl Cursor {
    /// Creates a cursor behind these positions.
    #[must_use]
    pub fn at(positions: impl IntoIterator<Item = i64>) -> Self {
        let mut cursor = Self::default();
        positions.into_iter().for_each(|pos| cursor.advance(pos));
        cursor
    }

    fn find(&self, shard: Shard) -> Result<usize, usize> {
        self.positions.binary_search_by_key(&shard, |pos| Shard::of_position(*pos))
    }

    /// Returns the position up to which the events of a shard are seen.
    #[must_use]
    pub fn position_in(&self, shard: Shard) -> i64 {
        self.find(shard).map_or_else(|_| shard.start(), |index| self.positions[index])
    }

    /// Returns `true` if the event at this position is seen.
    #[must_use]
    pub fn covers(&self, pos: i64) -> bool {
        pos <= self.position_in(Shard::of_position(pos))
    }

    /// Marks all events of the position's shard as seen, up to this position. Never moves backwards.
    pub fn advance(&mut self, pos: i64) {
        let shard = Shard::of_position(pos);
        match self.find(shard) {
            Ok(index) => self.positions[index] = self.positions[index].max(pos),
            Err(index) if pos > shard.start() => self.positions.insert(index, pos),
            Err(_) => {}
        }
    }

    /// Marks everything as seen that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        other.positions.iter().for_each(|pos| self.advance(*pos));
    }

    /// Returns what both cursors have seen.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        Self::at(self.positions.iter().map(|pos| (*pos).min(other.position_in(Shard::of_position(*pos)))))
    }

    /// Returns `true` if `other` has seen nothing else.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        other.positions.iter().all(|pos| self.covers(*pos))
    }

    /// Returns the positions, one for each shard with a seen event.
    #[must_use]
    pub fn positions(&self) -> &[i64] {
        &self.positions
    }

    /// Returns this cursor with another position in one shard, to be displayed without a copy.
    #[must_use]
    pub fn with(&self, pos: i64) -> CursorWith<'_> {
        CursorWith { cursor: self, pos }
    }
}

/// A cursor with another position in one shard.
#[derive(Debug, Clone, Copy)]
pub struct CursorWith<'a> {
    cursor: &'a Cursor,
    pos: i64,
}

impl fmt::Display for CursorWith<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cursor: Cursor { positions }, pos } = self;
        let is_plain = |pos: &i64| Shard::of_position(*pos) == Shard::default();
        if is_plain(pos) && positions.iter().all(is_plain) {
            return write!(f, "{pos}");
        }
        let (before, behind) = match self.cursor.find(Shard::of_position(*pos)) {
            Ok(index) => (&positions[..index], &positions[index + 1..]),
            Err(index) => positions.split_at(index),
        };
        let mut separator = "";
        for pos in before.iter().chain([pos]).chain(behind) {
            write!(f, "{separator}{}:{}", Shard::of_position(*pos).0, pos & number_mask())?;
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(self.positions.last().copied().unwrap_or_default()).fmt(f)
    }
}

/// The text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not the id of an event")]
pub struct InvalidCursor;

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        if text.len() > MAX_TEXT {
            return Err(InvalidCursor);
        }
        if !text.contains(':') {
            return Ok(Self::at([number(text)?]));
        }
        let mut cursor = Self::default();
        for part in text.split(',') {
            let (shard, count) = part.split_once(':').ok_or(InvalidCursor)?;
            let (shard, count) = (number(shard)?, number(count)?);
            // A shard that cannot exist has no events.
            if let Some(shard) = u16::try_from(shard).ok().and_then(Shard::new) {
                cursor.advance(shard.start() | count);
            }
        }
        Ok(cursor)
    }
}

/// Parses decimal digits, without a sign.
fn number(text: &str) -> Result<i64, InvalidCursor> {
    if !(1..=18).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidCursor);
    }
    // A number beyond all positions is like the last one.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidCursor);
    }
    Ok(text.parse::<i64>().map_err(|_| InvalidCursor)?.min(number_mask()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pos(shard: u16, number: i64) -> i64 {
        Shard::new(shard).unwrap().start() + number
    }

    #[test]
    fn cursor_of_one_shard_is_a_number() {
        assert_eq!(Cursor::default().to_string(), "0");
        assert_eq!(Cursor::at([12]).to_string(), "12");
        assert_eq!("12".parse(), Ok(Cursor::at([12])));
        assert_eq!("0".parse(), Ok(Cursor::default()));
    }

    #[test]
    fn cursor_of_several_shards_lists_them() {
        let cursor = Cursor::at([pos(3, 7), pos(0, 12)]);
        assert_eq!(cursor.to_string(), "0:12,3:7");
        assert_eq!("3:7,0:12".parse(), Ok(cursor));
        assert_eq!(Cursor::at([pos(3, 7)]).to_string(), "3:7");
    }

    #[test]
    fn invalid_cursor_text_is_rejected() {
        for text in ["", " ", "-1", "+1", "1.0", "a", "1:", ":1", "1:2,", "1,2", "1:2:3", "1234567890123456789"] {
            assert_eq!(text.parse::<Cursor>(), Err(InvalidCursor), "{text}");
        }
    }

    #[test]
    fn shard_that_cannot_exist_is_ignored() {
        assert_eq!("4096:1,1:2".parse(), Ok(Cursor::at([pos(1, 2)])));
    }

    #[test]
    fn number_beyond_all_positions_stays_in_its_shard() {
        let far: Cursor = "999999999999999999".parse().unwrap();
        assert_eq!((Shard::of_position(far.positions()[0]), far.positions().len()), (Shard::default(), 1));
    }

    #[test]
    fn id_names_its_shard() {
        let shard = Shard::new(0xabc).unwrap();
        let id = shard.id_within(Uuid::from_u128(u128::MAX));
        assert_eq!((Shard::of_call(id), id.as_u128() >> 12), (shard, u128::MAX >> 12));
    }

    fn cursors() -> impl Strategy<Value = Cursor> {
        prop::collection::vec((0..6u16, 0..20i64), 0..8)
            .prop_map(|positions| Cursor::at(positions.into_iter().map(|(shard, number)| pos(shard, number))))
    }

    proptest! {
        #[test]
        fn text_is_read_back(cursor in cursors()) {
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }

        #[test]
        fn cursor_with_another_position_equals_a_changed_copy(cursor in cursors(), shard in 0..6u16, number in 1..20i64) {
            let pos = pos(shard, number);
            let others = cursor.positions().iter().filter(|other| Shard::of_position(**other) != Shard::of_position(pos));
            let copy = Cursor::at(others.copied().chain([pos]));
            prop_assert_eq!(cursor.with(pos).to_string(), copy.to_string());
        }

        #[test]
        fn merged_cursor_covers_both_and_the_common_one_is_covered_by_both(one in cursors(), two in cursors()) {
            let mut merged = one.clone();
            merged.merge(&two);
            let common = one.common(&two);
            prop_assert!(merged.includes(&one) && merged.includes(&two));
            prop_assert!(one.includes(&common) && two.includes(&common));
            for shard in 0..6 {
                for number in 1..20 {
                    let pos = pos(shard, number);
                    prop_assert_eq!(merged.covers(pos), one.covers(pos) || two.covers(pos));
                    prop_assert_eq!(common.covers(pos), one.covers(pos) && two.covers(pos));
                }
            }
        }
    }
}
