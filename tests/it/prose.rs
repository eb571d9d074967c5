//! The English of the project: budgets for patterns of translated prose, forms of doc comments, names and messages.
//!
//! A budget is a rate per 100,000 words, a little above the rate in the documentation of widely used crates. A count
//! above its budget may only fall. `UPDATE_FIXTURES=1 cargo test --test it prose` records counts that have fallen.

use std::collections::BTreeMap;
use std::ops::Range;

use regex::{Regex, RegexBuilder};

use crate::support::ratchet::{self, Figure};
use extract::{Passage, PassageKind};
use items::ItemKind;

mod extract;
mod items;

/// A pattern of prose: its name, its regular expression, its budget per 100,000 words, and what to write instead.
type Budget = (&'static str, &'static str, usize, &'static str);

const BUDGETS: [Budget; 23] = [
    ("told", r"\btold\b", 1, "notified, given, reported"),
    ("nobody", r"\bnobody\b", 4, "the actor's name and the positive fact"),
    ("stands", r"\bstands\b", 0, "is in, is declared in"),
    ("whoever", r"\bwhoever\b", 2, "the caller, the client, the operator"),
    ("somebody, everybody, anybody", r"\b(some|every|any)body\b", 4, "the actor's name"),
    ("whatever", r"\bwhatever\b", 8, "any, all, regardless of"),
    ("as soon as ever, the whole of it", r"as soon as\s+ever|the whole of it", 0, "immediately; the full output"),
    ("of which, of whom", r"\bof (which|whom)\b", 4, "whose, or two sentences"),
    ("is none, are none", r"\b(is|are|was|were) none\b", 4, "is invalid, is unknown, is missing"),
    // The regex crate cannot look ahead: "no longer" and "no more" are subtracted below.
    ("is no X", r"\b(is|are) no [a-z]+", 50, "X not found, is not a valid X"),
    ("there is, there are", r"\bthere (is|are)\b", 120, "X exists, X not found"),
    ("one that, those that, ones that", r"\b(ones?|those) (that|who|whose)\b", 8, "the thing's name: a failed call"),
    ("is to, are to + verb", r"\b(is|are) to (be |have |do |go |run |come |[a-z]{3,})", 25, "must, should, will"),
    ("mend", r"\bmend(s|ed|ing)?(\b[^=]|$)", 0, "coerce (arguments), fix (settings)"),
    ("is away", r"\b(is|are|was|were) away\b", 0, "is unavailable"),
    ("see to, seen to", r"\b(see|sees|seen) to\b", 0, "handles, adopts"),
    ("goes on, go on", r"\bgo(es)? on\b", 2, "continues, keeps running"),
    ("beside", r"\bbeside\b", 1, "next to, in addition to"),
    ("anew", r"\banew\b", 0, "again"),
    ("let go of", r"\b(lets?|letting) go\b", 0, "release, drop"),
    ("by itself, by themselves", r"\bby (itself|themselves)\b", 3, "on its own, automatically"),
    ("so many, so long, so much", r"\bso (many|long|much)\b", 4, "N, the given number"),
    ("hear, hears, heard", r"\b(hears?|heard)\b", 2, "receives, is notified"),
];

/// Words that do not begin the doc comment of a function: a verb in the third person does.
const NOT_FIRST_OF_FUNCTIONS: &str = "What Whose Who How Where Why Which When As Of From With All One Its It Nothing";
/// Words that do not begin the doc comment of a type: a noun phrase does.
const NOT_FIRST_OF_TYPES: &str = "What How Why Who Whose Where Which When Something";
/// Participles and adverbs that name no type.
const NOT_TYPE_NAMES: &str = "\
    Said Told Seen Shown Known Asked Wanted Held Kept Given Found Made Taken Ended Heard Left Listed Reached Noted \
    Offered Answered Untold Alike";
/// What no message says.
const NOT_IN_MESSAGES: &str = r"\bthere is no\b|\bis none\b|\bis away\b|\bis no [a-z]";
/// Messages that the contract fixes although a pattern is in them.
const FIXED_MESSAGES: [&str; 0] = [];
/// The share of documented functions, in percent, whose documentation begins with a verb in the third person.
const VERBS_PERCENT: usize = 55;

fn ignoring_case(pattern: &str) -> Regex {
    RegexBuilder::new(pattern).case_insensitive(true).build().unwrap()
}

/// Returns the occurrences of a pattern in a text.
fn occurrences(pattern: &Regex, text: &str) -> Vec<Range<usize>> {
    let is_counted = |found: &str| !["no longer", "no more"].iter().any(|idiom| found.to_lowercase().ends_with(idiom));
    pattern.find_iter(text).filter(|found| is_counted(found.as_str())).map(|found| found.range()).collect()
}

/// Returns the place of an occurrence, with the words around it.
fn quoted(passage: &Passage, found: &Range<usize>) -> String {
    let before: String = passage.text[..found.start].chars().rev().take(40).collect();
    let after: String = passage.text[found.end..].chars().take(30).collect();
    let before: String = before.chars().rev().collect();
    let text = format!("{before}{}{after}", &passage.text[found.clone()]);
    format!("{}: …{}…", passage.place(found.start), text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn figure(name: &str, target: usize, instead: &str, places: Vec<String>) -> Figure {
    Figure { name: name.into(), count: places.len(), target, hint: format!("Write instead: {instead}."), places }
}

#[test]
fn patterns_are_within_their_budgets() {
    let passages = extract::all();
    let words: usize = passages.iter().map(Passage::words).sum();
    assert!(words > 50_000, "only {words} words were found");
    let figures = BUDGETS.map(|(name, pattern, budget, instead)| {
        let pattern = ignoring_case(pattern);
        let in_passage = |passage: &Passage| {
            let found = occurrences(&pattern, &passage.text);
            found.iter().map(|found| quoted(passage, found)).collect::<Vec<_>>()
        };
        let target = budget * words / 100_000;
        figure(name, target, instead, passages.iter().flat_map(in_passage).collect())
    });
    ratchet::check("prose", &figures);
}

#[test]
fn doc_comments_names_and_messages_have_their_form() {
    let is_in = |list: &str, word: &str| list.split_whitespace().any(|listed| listed == word);
    let not_in_messages = ignoring_case(NOT_IN_MESSAGES);
    let (mut functions, mut without_verb) = (0, Vec::new());
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in extract::files("src", "rs") {
        let text = extract::read(&file);
        for item in items::documented(&file, &text) {
            let (name, words) = match item.kind {
                ItemKind::Function => ("functions", NOT_FIRST_OF_FUNCTIONS),
                ItemKind::Type => ("types", NOT_FIRST_OF_TYPES),
            };
            if item.kind == ItemKind::Function {
                functions += 1;
                without_verb.extend((!items::is_verb(&item.first_word)).then(|| item.place.clone()));
            }
            if is_in(words, &item.first_word) {
                found.entry(name).or_default().push(item.place);
            }
        }
        let names = items::type_names(&file, &text).into_iter().filter(|(name, _)| is_in(NOT_TYPE_NAMES, name));
        found.entry("names").or_default().extend(names.map(|(name, place)| format!("{place}: {name}")));
        for passage in
            extract::of_rust(&file, &text, true).iter().filter(|passage| passage.kind == PassageKind::Message)
        {
            if !FIXED_MESSAGES.contains(&passage.text.trim()) {
                let places = not_in_messages.find_iter(&passage.text).map(|found| quoted(passage, &found.range()));
                found.entry("messages").or_default().extend(places);
            }
        }
    }
    let mut places = |name| found.remove(name).unwrap_or_default();
    let verb = "a verb in the third person, as in “Returns …”, “Waits until …”";
    ratchet::check(
        "prose_forms",
        &[
            figure("first words of functions", 0, verb, places("functions")),
            figure("functions without a verb", functions * (100 - VERBS_PERCENT) / 100, verb, without_verb),
            figure("first words of types", 0, "a noun phrase, as in “A handle to the journal.”", places("types")),
            figure("type names", 0, "a noun that names the thing", places("names")),
            figure("messages", 0, "unavailable, invalid, unknown, missing, rejected", places("messages")),
        ],
    );
}

#[test]
fn patterns_are_found_across_lines_and_idioms_are_not_counted() {
    let passage =
        extract::of_markdown("a.md", "It is\nnone. Is no longer X, is no X, and There\nare no more.\n\nThere\n\nis");
    let count = |name: &str| {
        let (_, pattern, ..) = BUDGETS.iter().find(|(other, ..)| *other == name).unwrap();
        occurrences(&ignoring_case(pattern), &passage.text).len()
    };
    assert_eq!(["is none, are none", "is no X", "there is, there are"].map(count), [1, 1, 1]);
    let found = occurrences(&ignoring_case("none"), &passage.text);
    assert_eq!(quoted(&passage, &found[0]), "a.md:2: …It is none. Is no longer X, is no X, and…");
}
