//! Runs a target with mutated inputs. proptest chooses the mutations and shrinks failing inputs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::support::fixture::project_file;

/// Maximum length of an input, in bytes.
const LONGEST: usize = 64 * 1024;
/// Number of inputs between two checks of the time limit in a long run.
const ROUND: u32 = 200;

/// A function under test that accepts any input and returns an error if it handles the input wrongly.
pub struct Target<F> {
    /// The folder of its corpus.
    pub name: &'static str,
    /// Golden cases of other tests that also belong to the corpus.
    pub beside: &'static [&'static str],
    /// Words that mutations insert.
    pub words: &'static [&'static str],
    /// Number of mutated inputs in every run.
    pub inputs: u32,
    pub take: F,
}

/// A mutation of an input.
#[derive(Debug, Clone)]
enum Change {
    Flip(Index, u8),
    Put(Index, u8),
    Word(Index, Index),
    Remove(Index, Index),
    Repeat(Index, Index, u8),
    Other(Index, Index, Index),
    End(Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let index = any::<Index>;
    let byte = prop_oneof![any::<u8>(), prop::sample::select(&b"\"\\{}[]:,\n\r\0 %#$&?=-0\xf0\x80\xff"[..])];
    let change = prop_oneof![
        (index(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (index(), byte).prop_map(|(at, byte)| Change::Put(at, byte)),
        (index(), index()).prop_map(|(at, word)| Change::Word(at, word)),
        (index(), index()).prop_map(|(from, to)| Change::Remove(from, to)),
        (index(), index(), 1..40_u8).prop_map(|(from, to, times)| Change::Repeat(from, to, times)),
        (index(), index(), index()).prop_map(|(at, other, from)| Change::Other(at, other, from)),
        index().prop_map(Change::End),
    ];
    prop::collection::vec(change, 1..8)
}

fn changed(corpus: &[Vec<u8>], first: &Index, changes: &[Change], words: &[&str]) -> Vec<u8> {
    let mut input = first.get(corpus).clone();
    for change in changes {
        let length = input.len();
        let at = |index_in_input: &Index| index_in_input.index(length + 1);
        let between = |from: &Index, to: &Index| (at(from).min(at(to)), at(from).max(at(to)));
        match change {
            Change::Flip(index_in_input, bit) if length > 0 => input[index_in_input.index(length)] ^= 1 << bit,
            Change::Put(index_in_input, byte) => input.insert(at(index_in_input), *byte),
            Change::Word(index_in_input, word) if !words.is_empty() => {
                let at = at(index_in_input);
                input.splice(at..at, word.get(words).bytes());
            }
            Change::Remove(from, to) => {
                let (from, to) = between(from, to);
                // Remove only a small part, so that the input stays interesting.
                input.drain(from..to.min(from + 1 + (to - from) / 8));
            }
            Change::Repeat(from, to, times) => {
                let (from, to) = between(from, to);
                let part = input[from..to.min(from + 64)].repeat(usize::from(*times));
                input.splice(from..from, part);
            }
            Change::Other(index_in_input, other, from) => {
                let (at, other) = (at(index_in_input), other.get(corpus));
                let part = other[from.index(other.len() + 1)..].to_vec();
                input.splice(at.., part);
            }
            Change::End(index_in_input) => input.truncate(at(index_in_input).max(length / 2)),
            Change::Flip(..) | Change::Word(..) => {}
        }
        input.truncate(LONGEST);
    }
    input
}

impl<F: Fn(&[u8]) -> Result<(), String>> Target<F> {
    /// Runs the corpus, then mutated inputs.
    pub fn run(&self) {
        let corpus = self.corpus();
        for (file, input) in &corpus {
            if let Err(wrong) = self.hand_over(input) {
                panic!("{}: {wrong}", file.display());
            }
        }
        let corpus: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
        self.round(&corpus, TestRng::deterministic_rng(RngAlgorithm::ChaCha), self.inputs);
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let Some(seconds) = number("TOOLPOST_FUZZ_SECONDS") else { return };
        let seed = number("TOOLPOST_FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()));
        println!("{}: TOOLPOST_FUZZ_SEED={seed}", self.name);
        let (until, mut rounds) = (Instant::now() + Duration::from_secs(seconds), 0_u64);
        while Instant::now() < until {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            bytes[8..16].copy_from_slice(&rounds.to_le_bytes());
            self.round(&corpus, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes), ROUND);
            rounds += 1;
        }
        println!("{}: {} inputs", self.name, rounds * u64::from(ROUND));
    }

    fn round(&self, corpus: &[Vec<u8>], rng: TestRng, inputs: u32) {
        let config = Config { cases: inputs, failure_persistence: None, ..Config::default() };
        let strategy = (any::<Index>(), changes());
        let done = TestRunner::new_with_rng(config, rng).run(&strategy, |(first, changes)| {
            let input = changed(corpus, &first, &changes, self.words);
            self.hand_over(&input).map_err(|wrong| {
                let shown = input.escape_ascii();
                TestCaseError::fail(format!("{wrong}\nfuzz/corpus/{} lacks the input: b\"{shown}\"", self.name))
            })
        });
        if let Err(error) = done {
            panic!("{}: {error}", self.name);
        }
    }

    fn hand_over(&self, input: &[u8]) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| (self.take)(input))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(format!("panicked: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
        })
    }

    fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = project_file("fuzz/corpus").join(self.name);
        let own = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<PathBuf> = own.map(|entry| entry.unwrap().path()).collect();
        files.extend(self.beside.iter().map(|path| project_file(path)));
        files.sort();
        assert!(!files.is_empty(), "{} is empty", folder.display());
        files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
    }
}

#[test]
fn failing_target_is_reported_with_its_input() {
    let picky = Target {
        name: "sse",
        beside: &[],
        words: &["forbidden"],
        inputs: 500,
        take: |input: &[u8]| {
            assert!(!input.windows(9).any(|part| part == b"forbidden"), "it was there");
            Ok(())
        },
    };
    let found = catch_unwind(AssertUnwindSafe(|| picky.run())).unwrap_err();
    let found = found.downcast_ref::<String>().unwrap();
    assert!(found.contains("it was there") && found.contains("forbidden"), "{found}");
}
