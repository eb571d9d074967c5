//! Tool search: BM25 over names, titles, tags, parameters and descriptions.

use std::borrow::Borrow;
use std::collections::HashSet;

use bm25::{Embedder, EmbedderBuilder, Embedding, Scorer, TokenEmbedder, TokenEmbedding, Tokenizer};

use super::words::{is_common, words};
use crate::domain::{ToolDefinition, json};
use crate::formats::definitions::parameters;

/// The weights of a word in the name, in the title and in a tag; elsewhere it counts once.
const WEIGHTS: [usize; 3] = [4, 2, 2];
/// Maximum length of the indexed part of a description, in characters.
const LONGEST_DESCRIPTION: usize = 10_000;
/// Maximum length of the part of a query that is used, in characters.
const LONGEST_QUERY: usize = 1_000;
/// Maximum number of words of a query.
const MOST_WORDS: usize = 64;

/// A search index of the tools of one snapshot.
pub(super) struct Index(Scorer<usize, u64>);

impl std::fmt::Debug for Index {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Index")
    }
}

/// A tokenizer that splits text with [`words`].
#[derive(Debug)]
struct Words;

impl Tokenizer for Words {
    fn tokenize(&self, text: &str) -> Vec<String> {
        words(text)
    }
}

impl Index {
    /// Indexes these tools by their position in the iterator.
    pub fn new(tools: impl Iterator<Item = impl Borrow<ToolDefinition>>) -> Self {
        let texts: Vec<String> = tools.map(|tool| text(tool.borrow())).collect();
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedder: Embedder<u64, Words> =
            EmbedderBuilder::with_tokenizer_and_fit_to_corpus(Words, &borrowed).build();
        let mut scorer = Scorer::new();
        for (place, text) in texts.iter().enumerate() {
            let mut embedding = embedder.embed(text);
            // The embedding repeats a word for each occurrence, always with its full weight; the scorer needs it once.
            let mut seen = HashSet::new();
            embedding.0.retain(|word| seen.insert(word.index));
            scorer.upsert(&place, embedding);
        }
        Self(scorer)
    }

    /// Returns the positions of the matching tools with their scores, best first; equal scores keep their order.
    pub fn search(&self, query: &str) -> Vec<(usize, f64)> {
        let mut seen = HashSet::new();
        let mut query_words = words(&json::shorten(query, LONGEST_QUERY));
        query_words.retain(|word| seen.insert(word.clone()));
        if query_words.iter().any(|word| !is_common(word)) {
            query_words.retain(|word| !is_common(word));
        }
        query_words.truncate(MOST_WORDS);
        let query_words = query_words.iter().map(|word| TokenEmbedding { index: u64::embed(word), value: 1.0 });
        let mut found: Vec<(usize, f64)> = self
            .0
            .matches(&Embedding(query_words.collect()))
            .into_iter()
            .map(|scored| (scored.id, (f64::from(scored.score) * 1e4).round() / 1e4))
            .filter(|(_, score)| *score > 0.0)
            .collect();
        found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        found
    }
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

    fn found(query: &str) -> Vec<String> {
        let tools = tools();
        let found = Index::new(tools.iter()).search(query);
        assert!(found.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{found:?}");
        assert!(found.iter().all(|(_, score)| *score > 0.0), "{found:?}");
        found.into_iter().map(|(place, _)| tools[place].name.clone()).collect()
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
        assert!(Index::new(std::iter::empty::<ToolDefinition>()).search("x").is_empty());
    }

    #[test]
    fn equal_scores_keep_the_list_order() {
        let tools: Vec<ToolDefinition> = ["a", "b", "c"].map(|name| tool(name, "Does it.", json!({}))).into();
        let places: Vec<usize> = Index::new(tools.iter()).search("does").into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, [0, 1, 2]);
    }

    #[test]
    fn long_query_is_truncated() {
        assert_eq!(found(&"recipient ".repeat(10_000)), ["mail.send"]);
    }
}
