//! A persistent map by name: a changed copy shares almost all its memory with the original.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Average number of values in a bucket above which the number of buckets grows.
const FULL: usize = 8;
/// Factor by which the number of buckets grows.
const GROWTH: usize = 4;

/// Values by name. A change copies one bucket and the list of buckets, but no other value.
#[derive(Debug, Clone)]
pub(super) struct NameMap<V> {
    hasher: RandomState,
    buckets: Arc<Vec<Arc<Bucket<V>>>>,
    len: usize,
}

type Bucket<V> = Vec<Slot<V>>;

#[derive(Debug, Clone)]
struct Slot<V> {
    hash: u64,
    name: Arc<str>,
    value: V,
}

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), buckets: Arc::new(vec![Arc::default()]), len: 0 }
    }
}

impl<V: Clone> NameMap<V> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the value of this name.
    pub fn get(&self, name: &str) -> Option<&V> {
        let hash = self.hasher.hash_one(name);
        let bucket = self.buckets.get(self.index_of(hash))?;
        bucket.iter().find(|slot| slot.hash == hash && *slot.name == *name).map(|slot| &slot.value)
    }

    /// Returns all names and values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.buckets.iter().flat_map(|bucket| bucket.iter()).map(|slot| (&slot.name, &slot.value))
    }

    /// Returns `true` if both are copies of one map that has not changed.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buckets, &other.buckets)
    }

    /// Returns the names that only one of the maps has, and those with different values.
    pub fn names_that_differ(&self, other: &Self, is_equal: impl Fn(&V, &V) -> bool) -> Vec<Arc<str>> {
        let has_same_size = self.buckets.len() == other.buckets.len();
        let is_shared = |index: usize| has_same_size && Arc::ptr_eq(&self.buckets[index], &other.buckets[index]);
        let differing = |map: &Self| {
            let buckets = map.buckets.iter().enumerate().filter(|(index, _)| !is_shared(*index));
            buckets.flat_map(|(_, bucket)| bucket.iter()).map(|slot| slot.name.clone()).collect::<Vec<_>>()
        };
        let mut names = differing(other);
        names.retain(|name| match (self.get(name), other.get(name)) {
            (Some(one), Some(other)) => !is_equal(one, other),
            _ => true,
        });
        names.extend(differing(self).into_iter().filter(|name| other.get(name).is_none()));
        names
    }

    /// Sets the value of a name.
    pub fn insert(&mut self, name: Arc<str>, value: V) {
        let hash = self.hasher.hash_one(&*name);
        let Some(bucket) = self.bucket(hash) else { return };
        match bucket.iter_mut().find(|slot| slot.hash == hash && slot.name == name) {
            Some(slot) => slot.value = value,
            None => {
                bucket.push(Slot { hash, name, value });
                self.len += 1;
                self.grow();
            }
        }
    }

    /// Removes a name and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        // A map without the name is not copied.
        self.get(name)?;
        let hash = self.hasher.hash_one(name);
        let bucket = self.bucket(hash)?;
        let index = bucket.iter().position(|slot| slot.hash == hash && *slot.name == *name)?;
        let removed = bucket.swap_remove(index);
        self.len -= 1;
        Some(removed.value)
    }

    /// Returns the number of buckets that this map does not share with another one.
    #[cfg(test)]
    pub fn copied_buckets(&self, other: &Self) -> usize {
        let is_shared =
            |index: &usize| other.buckets.get(*index).is_some_and(|bucket| Arc::ptr_eq(bucket, &self.buckets[*index]));
        self.buckets.len() - (0..self.buckets.len()).filter(is_shared).count()
    }

    /// Returns the bucket of a hash, which no other map shares.
    fn bucket(&mut self, hash: u64) -> Option<&mut Bucket<V>> {
        let index = self.index_of(hash);
        Arc::make_mut(&mut self.buckets).get_mut(index).map(Arc::make_mut)
    }

    fn index_of(&self, hash: u64) -> usize {
        // The number of buckets is a power of two.
        usize::try_from(hash & (self.buckets.len() as u64 - 1)).unwrap_or_default()
    }

    fn grow(&mut self) {
        if self.len <= self.buckets.len() * FULL {
            return;
        }
        let grown = (0..self.buckets.len() * GROWTH).map(|_| Arc::default()).collect();
        let old = std::mem::replace(&mut self.buckets, Arc::new(grown));
        for slot in old.iter().flat_map(|bucket| bucket.iter()) {
            if let Some(bucket) = self.bucket(slot.hash) {
                bucket.push(slot.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Arc<str> {
        format!("tool_{number}").into()
    }

    #[test]
    fn values_are_found_replaced_and_removed() {
        let mut map = NameMap::default();
        (0..1000).for_each(|number| map.insert(name(number), number));
        assert!((0..1000).all(|number| map.get(&name(number)) == Some(&number)));
        map.insert(name(7), 0);
        assert_eq!((map.len(), map.get("tool_7"), map.get("tool_1000")), (1000, Some(&0), None));
        assert_eq!((map.remove("tool_7"), map.remove("tool_7"), map.len()), (Some(0), None, 999));
        assert_eq!(map.iter().map(|(_, value)| value).sum::<usize>(), 499_500 - 7);
    }

    #[test]
    fn differing_names_are_those_of_changed_values() {
        let mut map = NameMap::default();
        (0..100).for_each(|number| map.insert(name(number), number));
        let mut changed = map.clone();
        assert!(changed.is_same(&map) && changed.names_that_differ(&map, usize::eq).is_empty());
        changed.insert(name(3), 0);
        changed.insert(name(100), 100);
        changed.remove("tool_7");
        let names = |one: &NameMap<usize>, other| {
            let mut names = one.names_that_differ(other, usize::eq);
            names.sort();
            names
        };
        let expected = [name(100), name(3), name(7)];
        assert!(names(&map, &changed) == expected && names(&changed, &map) == expected && !changed.is_same(&map));
        let mut other = NameMap::default();
        (1..=100).for_each(|number| other.insert(name(number), number));
        assert_eq!(names(&map, &other), [name(0), name(100)], "of maps that share nothing");
        (100..5000).for_each(|number| changed.insert(name(number), number));
        assert_eq!(map.names_that_differ(&changed, usize::eq).len(), 4902, "of maps with other buckets");
    }

    #[test]
    fn change_copies_one_bucket_and_leaves_the_original() {
        let mut map = NameMap::default();
        (0..3000).for_each(|number| map.insert(name(number), number));
        let before = map.clone();
        map.insert(name(3000), 3000);
        assert_eq!((before.len(), before.get("tool_3000"), map.get("tool_3000")), (3000, None, Some(&3000)));
        assert_eq!(map.copied_buckets(&before), 1);
    }
}
