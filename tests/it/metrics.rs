//! `GET /metrics`: exact counts, and a fixed set of series.

use std::collections::BTreeMap;

use toolpost::telemetry::metrics::catalog::{CATALOG, Kind};

use crate::support::{Client, eventually};

mod bounds;
mod counts;
mod documents;
mod readers;
mod states;
mod upstreams;

/// A parsed exposition: families with their kinds, and samples by name and labels in their original form.
struct Exposition {
    families: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Exposition {
    /// Parses the text format (0.0.4) strictly: each family occurs once, with a description and its samples below it.
    fn parse(text: &str) -> Self {
        let (mut families, mut samples) = (BTreeMap::new(), BTreeMap::new());
        let mut described = String::new();
        let mut current = String::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                described = rest.split_once(' ').unwrap().0.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, described, "not described");
                assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
                name.clone_into(&mut current);
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
                assert!(series.starts_with(&current), "{line} below {current}");
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
                assert!(samples.insert(series.to_owned(), value).is_none(), "{series} twice");
            }
        }
        Self { families, samples }
    }

    /// Returns a sample, or `None` if the series does not exist.
    fn get(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// Returns the samples of the series with this prefix.
    fn beginning(&self, prefix: &str) -> BTreeMap<&str, f64> {
        let found = self.samples.iter().filter(|(series, _)| series.starts_with(prefix));
        found.map(|(series, value)| (series.as_str(), *value)).collect()
    }
}

impl Client {
    async fn metrics(&self) -> Exposition {
        let answer = self.get("/metrics").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
        Exposition::parse(&answer.text())
    }

    /// Waits until these series have these values, because a request is counted shortly after its response.
    async fn counted(&self, wanted: &[(&str, f64)]) -> Exposition {
        let looking = eventually("the counts", || async {
            let found = self.metrics().await;
            let missing: Vec<_> = wanted.iter().filter(|(series, value)| found.get(series) != Some(*value)).collect();
            if !missing.is_empty() {
                // The output appears only if the test fails.
                println!("not yet: {missing:?}");
            }
            missing.is_empty().then_some(found)
        });
        looking.await
    }
}

fn is_histogram(kind: Kind) -> bool {
    matches!(kind, Kind::Histogram(_))
}

/// Returns the metric of a name in a query.
fn metric_of(name: &str) -> Option<&'static str> {
    let one = CATALOG.iter().find(|one| {
        let parts = ["_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", one.name));
        if is_histogram(one.kind) { parts.iter().any(|part| part == name) } else { one.name == name }
    });
    one.map(|one| one.name)
}
