//! Reads and resets the statistics, which are stored as additive rows.

use std::collections::BTreeMap;

use super::journal::upper_end_ms;
use super::{Store, StoreError};
use toolpost_core::domain::Time;
use toolpost_core::domain::stats::{CACHED, StepStats, ToolStats};

mod fold;

/// tool, executed, code, bucket, calls, total, min, max, retries, last
type TotalRow = (String, i16, String, i32, i64, i64, i64, i64, i64, Time);
/// The same with the first minute of a step instead of the tool.
type StepRow = (i64, i16, String, i32, i64, i64, i64, i64, i64, Time);

impl Store {
    /// Returns the totals of all tools that were ever called, or of one tool.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn stats(&self, tool: Option<&str>) -> Result<Vec<ToolStats>, StoreError> {
        const SQL: &str = "SELECT tool, executed, code, bucket, calls, total_ms, min_ms, max_ms, retries, last_at \
            FROM tool_stats WHERE tenant = $1 AND minute = 0 AND (tool = $2 OR $3 = 0) ORDER BY tool, executed, bucket";
        self.fold_stats().await?;
        let (name, only) = (searchable_name(tool.unwrap_or_default()), i32::from(tool.is_some()));
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        for row in self.read(SQL).bind(name).bind(only).all::<TotalRow>().await? {
            sums.entry(row.0.clone()).or_default().add(row);
        }
        Ok(sums.into_iter().map(|(tool, sum)| sum.finish(tool)).collect())
    }

    /// Returns the statistics of a tool since this minute, in steps of `step` minutes that begin at a multiple of it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn stats_since(&self, tool: &str, since: Time, step: i64) -> Result<Series, StoreError> {
        const SQL: &str = "SELECT minute / $2 * $2 AS step, executed, code, bucket, CAST(SUM(calls) AS BIGINT), \
            CAST(SUM(total_ms) AS BIGINT), MIN(min_ms), MAX(max_ms), CAST(SUM(retries) AS BIGINT), MAX(last_at) FROM tool_stats \
            WHERE tenant = $1 AND tool = $3 AND minute >= $4 AND minute > 0 GROUP BY minute / $2 * $2, executed, code, bucket";
        self.fold_stats().await?;
        let query = self.read(SQL).bind(step.max(1)).bind(searchable_name(tool)).bind(since.minute());
        let mut series = Series::default();
        for (minute, executed, code, bucket, calls, total, min, max, retries, last) in query.all::<StepRow>().await? {
            let row = (String::new(), executed, code, bucket, calls, total, min, max, retries, last);
            series.0.entry(minute).or_default().add(row);
        }
        Ok(series)
    }

    /// Resets the statistics of one tool or of all tools.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn reset_stats(&self, tool: Option<&str>) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM tool_stats WHERE tenant = $1 AND (tool = $2 OR $3 = 0)";
        self.fold_stats().await?;
        let (name, only) = (searchable_name(tool.unwrap_or_default()), i32::from(tool.is_some()));
        self.write(SQL).bind(name).bind(only).execute().await.map(drop)
    }
}

/// Returns the name as a query parameter. Postgres rejects U+0000, which occurs in no tool name.
fn searchable_name(name: &str) -> String {
    name.replace('\0', "\u{fffd}")
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Statistics in steps of time. Several tools can be added up, because the distribution of the durations is known.
#[derive(Debug, Clone, Default)]
pub struct Series(BTreeMap<i64, Sum>);

impl Series {
    /// Adds the statistics of another tool.
    pub fn merge(&mut self, other: &Self) {
        for (minute, sum) in &other.0 {
            self.0.entry(*minute).or_default().merge(sum);
        }
    }

    /// Returns the steps in which calls ended, oldest first.
    #[must_use]
    pub fn steps(&self) -> Vec<StepStats> {
        let step =
            |(minute, sum): (&i64, &Sum)| StepStats::of(Time(minute * 60_000_000), sum.clone().finish(String::new()));
        self.0.iter().map(step).collect()
    }

    /// Returns the statistics of all steps together.
    #[must_use]
    pub fn total(&self, tool: &str) -> ToolStats {
        let mut total = Sum::default();
        self.0.values().for_each(|sum| total.merge(sum));
        total.finish(tool.to_owned())
    }
}

/// The aggregated rows of one tool.
#[derive(Debug, Clone, Default)]
struct Sum {
    stats: ToolStats,
    buckets: BTreeMap<i32, u64>,
    min: Option<u64>,
}

impl Sum {
    fn add(&mut self, row: TotalRow) {
        let (_, executed, code, bucket, calls, total, min, max, retries, last) = row;
        let (stats, calls) = (&mut self.stats, unsigned(calls));
        stats.retry_count += unsigned(retries);
        stats.last_called_at = stats.last_called_at.max(Some(last));
        if executed == 0 && code == CACHED {
            stats.cache_hit_count += calls;
            return;
        }
        if executed == 0 {
            stats.rejected_count += calls;
            *stats.rejected_by_code.entry(code).or_default() += calls;
            return;
        }
        if code.is_empty() {
            stats.success_count += calls;
        } else {
            stats.failure_count += calls;
            *stats.failures_by_code.entry(code).or_default() += calls;
        }
        stats.total_duration_ms += unsigned(total);
        stats.max_duration_ms = stats.max_duration_ms.max(unsigned(max));
        self.min = Some(self.min.map_or(unsigned(min), |least| least.min(unsigned(min))));
        *self.buckets.entry(bucket).or_default() += calls;
    }

    fn merge(&mut self, other: &Self) {
        let add = |codes: &mut BTreeMap<String, u64>, others: &BTreeMap<String, u64>| {
            others.iter().for_each(|(code, calls)| *codes.entry(code.clone()).or_default() += calls);
        };
        let (stats, others) = (&mut self.stats, &other.stats);
        stats.retry_count += others.retry_count;
        stats.last_called_at = stats.last_called_at.max(others.last_called_at);
        stats.cache_hit_count += others.cache_hit_count;
        stats.rejected_count += others.rejected_count;
        add(&mut stats.rejected_by_code, &others.rejected_by_code);
        stats.success_count += others.success_count;
        stats.failure_count += others.failure_count;
        add(&mut stats.failures_by_code, &others.failures_by_code);
        stats.total_duration_ms += others.total_duration_ms;
        stats.max_duration_ms = stats.max_duration_ms.max(others.max_duration_ms);
        self.min = self.min.into_iter().chain(other.min).min();
        other.buckets.iter().for_each(|(bucket, calls)| *self.buckets.entry(*bucket).or_default() += calls);
    }

    fn finish(self, tool_name: String) -> ToolStats {
        let percentile = |share: u64| self.percentile(share);
        let (p50, p95, p99) = (percentile(50), percentile(95), percentile(99));
        let stats = self.stats;
        let executions = stats.success_count + stats.failure_count;
        ToolStats {
            tool_name,
            execution_count: executions,
            average_duration_ms: (stats.total_duration_ms + executions / 2).checked_div(executions).unwrap_or(0),
            min_duration_ms: self.min.unwrap_or(0),
            p50_duration_ms: p50,
            p95_duration_ms: p95,
            p99_duration_ms: p99,
            ..stats
        }
    }

    /// Returns the duration not exceeded by `share` percent of the executions, within the observed minimum and maximum.
    fn percentile(&self, share: u64) -> u64 {
        let executions: u64 = self.buckets.values().sum();
        let wanted = (executions * share).div_ceil(100);
        let mut seen = 0;
        for (bucket, calls) in &self.buckets {
            seen += calls;
            if seen >= wanted {
                return upper_end_ms(*bucket).clamp(self.min.unwrap_or(0), self.stats.max_duration_ms);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::bucket_of;
    use super::*;

    #[test]
    fn sums_percentiles_and_averages_are_computed_from_rows() {
        let mut sum = Sum::default();
        for duration in 1..=100_u64 {
            let ms = duration as i64;
            sum.add(("t".into(), 1, String::new(), bucket_of(duration), 1, ms, ms, ms, 0, Time(ms)));
        }
        sum.add(("t".into(), 0, "TOOL_VALIDATION_ERROR".into(), 0, 2, 0, 0, 0, 0, Time(7)));
        sum.add(("t".into(), 0, CACHED.into(), 0, 3, 0, 0, 0, 0, Time(9)));
        let stats = sum.finish("t".into());
        assert_eq!((stats.p50_duration_ms, stats.p95_duration_ms, stats.p99_duration_ms), (50, 95, 99));
        assert_eq!((stats.min_duration_ms, stats.max_duration_ms, stats.average_duration_ms), (1, 100, 51));
        assert_eq!((stats.execution_count, stats.rejected_count, stats.cache_hit_count), (100, 2, 3));
        assert!(!stats.rejected_by_code.contains_key(CACHED));
        assert_eq!(stats.last_called_at, Some(Time(100)));
    }

    #[test]
    fn series_total_has_the_percentiles_of_all_calls() {
        let row = |duration: u64| {
            let ms = duration as i64;
            ("t".to_owned(), 1, String::new(), bucket_of(duration), 1, ms, ms, ms, 1, Time(ms))
        };
        let (mut one, mut other) = (Series::default(), Series::default());
        (1..=50).for_each(|duration| one.0.entry(duration as i64 % 2).or_default().add(row(duration)));
        (51..=100).for_each(|duration| other.0.entry(1).or_default().add(row(duration)));
        one.merge(&other);
        let total = one.total("t");
        assert_eq!((total.p50_duration_ms, total.p99_duration_ms, total.execution_count), (50, 99, 100));
        assert_eq!((total.min_duration_ms, total.max_duration_ms, total.retry_count), (1, 100, 100));
        let steps: Vec<(Time, u64)> = one.steps().iter().map(|step| (step.minute, step.execution_count)).collect();
        assert_eq!(steps, [(Time(0), 25), (Time(60_000_000), 75)]);
    }
}
