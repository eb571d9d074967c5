//! Tool search: BM25 over names, titles, tags, parameters and descriptions.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::words::{is_common, words};
use toolpost_core::domain::{ToolDefinition, json};
use toolpost_core::formats::definitions::parameters;

/// The weights of a word in the name, in the title and in a tag; elsewhere it counts once.
const WEIGHTS: [usize; 3] = [4, 2, 2];
/// Maximum length of the indexed part of a description, in characters.
const LONGEST_DESCRIPTION: usize = 10_000;
/// Maximum length of the part of a query that is used, in characters.
const LONGEST_QUERY: usize = 1_000;
/// Maximum number of words of a query.
const MAX_WORDS: usize = 64;
/// The usual parameters of BM25: how much repetitions of a word count, and how much the length of a text does.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Approximate memory of a tool without its words, and of a word of a tool, in bytes.
const TOOL_BYTES: usize = 128;
const WORD_BYTES: usize = 24;

/// The words of tools. Scores are computed by each search, so a change of one tool changes its own words only.
#[derive(Default)]
pub(super) struct WordIndex {
    numbers: HashMap<Arc<str>, u32>,
    /// The tools by place; a removed one leaves its place to the next tool.
    tools: Vec<Option<IndexedTool>>,
    free: Vec<u32>,
    /// The tools with a word, by the hash of the word.
    tools_with: HashMap<u64, Vec<Occurrences>>,
    /// Number of words of all tools, with repetitions.
    length: u64,
    /// Number of words of each tool, together.
    distinct: usize,
}

struct IndexedTool {
    name: Arc<str>,
    /// The hashes of its words.
    words: Box<[u64]>,
    /// Number of words with repetitions.
    length: u32,
}

/// The occurrences of a word in one tool.
struct Occurrences {
    number: u32,
    count: u32,
}

impl WordIndex {
    /// Adds a tool, or replaces the tool of its name.
    pub fn add(&mut self, name: &Arc<str>, tool: &ToolDefinition) {
        self.remove(name);
        let mut counts = HashMap::<u64, u32>::new();
        let mut length = 0;
        for word in words(&text(tool)) {
            *counts.entry(hash(&word)).or_default() += 1;
            length += 1;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.tools.push(None);
            u32::try_from(self.tools.len() - 1).unwrap_or(u32::MAX)
        });
        for (word, count) in &counts {
            self.tools_with.entry(*word).or_default().push(Occurrences { number, count: *count });
        }
        self.length += u64::from(length);
        self.distinct += counts.len();
        self.numbers.insert(name.clone(), number);
        let tool = IndexedTool { name: name.clone(), words: counts.into_keys().collect(), length };
        if let Some(slot) = self.tools.get_mut(number as usize) {
            *slot = Some(tool);
        }
    }

    /// Removes the tool of this name.
    pub fn remove(&mut self, name: &str) {
        let Some(number) = self.numbers.remove(name) else { return };
        let Some(tool) = self.tools.get_mut(number as usize).and_then(Option::take) else { return };
        for word in &tool.words {
            let Some(tools) = self.tools_with.get_mut(word) else { continue };
            tools.retain(|occurrences| occurrences.number != number);
            if tools.is_empty() {
                self.tools_with.remove(word);
            }
        }
        self.length -= u64::from(tool.length);
        self.distinct -= tool.words.len();
        self.free.push(number);
    }

    /// Returns the approximate memory of the index, in bytes.
    pub fn size(&self) -> usize {
        self.numbers.len() * TOOL_BYTES + self.distinct * WORD_BYTES
    }

    /// Returns the names of the matching tools with their scores, best first; equal scores are in the order of names.
    pub fn search(&self, query: &str) -> Vec<(&Arc<str>, f64)> {
        let mut scores = HashMap::<u32, f64>::new();
        for word in query_words(query) {
            let found = self.tools_with.get(&hash(&word)).map_or(&[][..], Vec::as_slice);
            let rarity = self.rarity(found.len());
            for Occurrences { number, count } in found {
                *scores.entry(*number).or_default() += rarity * self.weight(*number, *count);
            }
        }
        let rounded = |score: f64| (score * 1e4).round() / 1e4;
        let scored =
            scores.into_iter().map(|(number, score)| (number, rounded(score))).filter(|(_, score)| *score > 0.0);
        let named = |(number, score)| Some((&self.tool(number)?.name, score));
        let mut found: Vec<(&Arc<str>, f64)> = scored.filter_map(named).collect();
        found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        found
    }

    fn tool(&self, number: u32) -> Option<&IndexedTool> {
        self.tools.get(number as usize)?.as_ref()
    }

    /// Returns the weight of a word that this number of tools have.
    fn rarity(&self, found: usize) -> f64 {
        let (all, found) = (self.numbers.len() as f64, found as f64);
        (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
    }

    /// Returns the weight of a word that a tool has this number of times.
    fn weight(&self, number: u32, count: u32) -> f64 {
        let average = self.length as f64 / self.numbers.len() as f64;
        let length = self.tool(number).map_or(average, |tool| f64::from(tool.length));
        let count = f64::from(count);
        count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / average))
    }
}

/// Returns the words of a query, each once. Common words count only without other words.
fn query_words(query: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut query_words = words(&json::shorten(query, LONGEST_QUERY));
    query_words.retain(|word| seen.insert(word.clone()));
    if query_words.iter().any(|word| !is_common(word)) {
        query_words.retain(|word| !is_common(word));
    }
    query_words.truncate(MAX_WORDS);
    query_words
}

fn hash(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

/// Returns the indexed text of a tool, with each part repeated by its weight.
fn text(tool: &ToolDefinition) -> String {
    let [name, title, tag] = WEIGHTS;
    let mut text = String::new();
    let mut add = |words: &str, times: usize| {
        for _ in 0..times {
            text.push_str(words);
            text.push('\n');
        }
    };
    add(&tool.name, name);
    if tool.display_name() != tool.name {
        add(tool.display_name(), title);
    }
    tool.tags.iter().for_each(|words| add(words, tag));
    parameters::names(&tool.input_schema).into_iter().for_each(|words| add(words, 1));
    add(&json::shorten(&tool.description, LONGEST_DESCRIPTION), 1);
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, description: &str, properties: Value) -> ToolDefinition {
        let definition = json!({
            "name": name, "description": description, "executor": {"type": "external"},
            "input_schema": {"type": "object", "properties": properties},
        });
        serde_json::from_value(definition).unwrap()
    }

    fn tools() -> Vec<ToolDefinition> {
        let mut mail = tool("mail.send", "Sends a message to a person.", json!({"recipient": {"type": "string"}}));
        mail.tags = vec!["email".into()];
        let mut weather = tool("getWeather", "Tells how it will be outside.", json!({"city": {"type": "string"}}));
        weather.title = Some("天气预报".into());
        vec![
            mail,
            weather,
            tool("list_files", "Lists the files of a folder.", json!({"path": {"type": "string"}})),
            tool("read_file", "Reads a file of a folder, in any weather.", json!({"path": {}})),
            tool("query_orders", "查询订单的状态和物流信息。", json!({"order_id": {"type": "string"}})),
        ]
    }

    fn index(tools: &[ToolDefinition]) -> WordIndex {
        let mut index = WordIndex::default();
        tools.iter().for_each(|tool| index.add(&tool.name.as_str().into(), tool));
        index
    }

    fn found(query: &str) -> Vec<String> {
        let index = index(&tools());
        let found = index.search(query);
        assert!(found.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{found:?}");
        assert!(found.iter().all(|(_, score)| *score > 0.0), "{found:?}");
        found.into_iter().map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn name_has_more_weight_than_description() {
        assert_eq!(found("weather"), ["getWeather", "read_file"]);
    }

    #[test]
    fn names_titles_descriptions_tags_and_parameters_are_searched() {
        assert_eq!(found("getweather"), ["getWeather"]);
        assert_eq!(found("outside"), ["getWeather"]);
        assert_eq!(found("Email"), ["mail.send"]);
        assert_eq!(found("recipients"), ["mail.send"]);
        assert_eq!(found("mail send"), ["mail.send"]);
        assert_eq!(found("cities")[0], "getWeather");
    }

    #[test]
    fn chinese_is_found_without_spaces_between_the_words() {
        assert_eq!(found("天气")[0], "getWeather");
        assert_eq!(found("订单物流"), ["query_orders"]);
        assert_eq!(found("我的订单在哪里")[0], "query_orders");
    }

    #[test]
    fn common_words_count_only_without_other_words() {
        assert_eq!(found("what is the recipient of a"), ["mail.send"]);
        assert!(!found("of a").is_empty());
    }

    #[test]
    fn unrelated_query_has_no_results() {
        assert!(found("quantum").is_empty() && found("").is_empty() && found("?!").is_empty());
        assert!(WordIndex::default().search("x").is_empty());
    }

    #[test]
    fn equal_scores_are_in_the_order_of_names() {
        let tools: Vec<ToolDefinition> = ["b", "c", "a"].map(|name| tool(name, "Does it.", json!({}))).into();
        let index = index(&tools);
        let names: Vec<&str> = index.search("does").into_iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn changed_index_equals_a_new_one() {
        let (tools, mut changed) = (tools(), index(&tools()));
        let other = tool("mail.send", "Posts a letter.", json!({"stamp": {}}));
        changed.add(&"mail.send".into(), &other);
        changed.remove("getWeather");
        changed.add(&"weather2".into(), &tool("weather2", "Tells the weather.", json!({})));
        let mut expected = vec![other, tool("weather2", "Tells the weather.", json!({}))];
        expected.extend(tools.into_iter().skip(2));
        let expected = index(&expected);
        for query in ["weather", "letter", "message", "folder file", "订单"] {
            assert_eq!(changed.search(query), expected.search(query), "{query}");
        }
        assert_eq!((changed.size(), changed.tools.len()), (expected.size(), expected.tools.len()));
        for name in ["mail.send", "weather2", "list_files", "read_file", "query_orders"] {
            changed.remove(name);
        }
        assert_eq!((changed.size(), changed.length, changed.tools_with.len()), (0, 0, 0));
    }

    #[test]
    fn long_query_is_truncated() {
        assert_eq!(found(&"recipient ".repeat(10_000)), ["mail.send"]);
    }
}
