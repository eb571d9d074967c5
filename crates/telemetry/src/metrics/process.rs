//! Resource usage of the process, from `/proc` (Linux only).

/// The resource usage of the process. A field is `None` if the system does not provide it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessStats {
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Number of open file descriptors.
    pub open_fds: Option<u64>,
    /// Maximum number of open file descriptors.
    pub max_fds: Option<u64>,
    /// CPU time, in seconds.
    pub cpu_seconds: Option<u64>,
}

/// Reads the resource usage, with a few small file reads.
#[must_use]
pub fn stats() -> ProcessStats {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).ok();
    let resident_pages = read("statm").and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    // The second field, the name, can contain spaces, so the fields are counted from its closing bracket.
    let ticks = read("stat").and_then(|text| {
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let user: u64 = fields.nth(11)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(user + system)
    });
    ProcessStats {
        resident_bytes: resident_pages.map(|pages| pages * page),
        open_fds: std::fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1) as u64),
        max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        cpu_seconds: ticks.map(|ticks| ticks / rustix::param::clock_ticks_per_second().max(1)),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn usage_is_available_on_linux() {
        let stats = super::stats();
        assert!(stats.resident_bytes.unwrap() > 1_000_000 && stats.open_fds.unwrap() > 2, "{stats:?}");
        assert!(stats.cpu_seconds.is_some() && stats.max_fds.is_some(), "{stats:?}");
    }
}
