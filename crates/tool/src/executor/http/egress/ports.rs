//! Denied ports: they belong to services of other protocols, in which an HTTP request could trigger actions.

/// Bad ports of the Fetch standard ("port blocking").
const OF_FETCH: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];
/// Ports of databases whose protocol is not HTTP.
const OF_DATABASES: [u16; 18] = [
    1433, 1434, // SQL Server
    1521, 2483, 2484, // Oracle
    3050, // Firebird
    3306, // MySQL
    5432, // PostgreSQL
    6379, 6380,  // Redis
    6432,  // PgBouncer
    9042,  // Cassandra
    11211, // memcached
    26257, // CockroachDB
    26379, // Redis Sentinel
    27017, 27018, 27019, // MongoDB
];

/// Returns the reason for denying a port; `None` if connections are allowed.
pub(super) fn denied(port: u16) -> Option<&'static str> {
    if OF_FETCH.binary_search(&port).is_ok() {
        Some("a port of a service that does not speak HTTP")
    } else {
        OF_DATABASES.binary_search(&port).is_ok().then_some("a port of a database")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_sorted_and_below_the_ephemeral_range() {
        for ports in [&OF_FETCH[..], &OF_DATABASES] {
            assert!(ports.is_sorted_by(|a, b| a < b) && ports.iter().all(|port| *port < 32_768));
        }
    }

    #[test]
    fn ports_of_other_protocols_are_denied() {
        for port in [0, 22, 25, 110, 6000, 6667, 10080] {
            assert!(denied(port).unwrap().contains("HTTP"), "{port}");
        }
        for port in [1433, 3306, 5432, 6379, 11211, 27017] {
            assert!(denied(port).unwrap().contains("database"), "{port}");
        }
        for port in [80, 443, 3000, 8000, 8080, 9200, 65_535] {
            assert_eq!(denied(port), None, "{port}");
        }
    }
}
