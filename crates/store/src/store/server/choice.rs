//! The choice of the server to use among the hosts of a URL. Pure functions.

use super::probe::{Server, Sighting};

/// The newest timeline that was seen of the cluster in use. Servers of older timelines are refused: a primary that comes
/// back after a standby was promoted still accepts writes, but nobody reads them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fence {
    /// The identifier of the cluster; 0 until one is known.
    system: i64,
    timeline: i64,
}

/// The server to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The host with this index, and its answer.
    Host(usize, Server),
    /// No host can be used now.
    Nothing,
    /// Two different servers accept writes on the newest timeline. Neither is used.
    Conflict(usize, usize),
}

impl Fence {
    /// Raises the fence to what these hosts know. The first primary that is seen determines the cluster.
    fn raise(&mut self, servers: &[(usize, Server)]) {
        if self.system == 0 {
            let newest =
                servers.iter().filter(|(_, server)| server.is_usable).max_by_key(|(_, server)| server.timeline);
            self.system = newest.map_or(0, |(_, server)| server.system);
        }
        let own = servers.iter().filter(|(_, server)| self.system != 0 && server.system == self.system);
        self.timeline = own.map(|(_, server)| server.timeline).fold(self.timeline, i64::max);
    }

    /// Returns `true` for the answer of a server of another cluster.
    pub fn is_stranger(self, sighting: &Sighting) -> bool {
        matches!(sighting, Sighting::Answered(server) if server.system != self.system)
    }

    /// Returns `true` if writes to this server may be lost.
    pub fn refuses(self, server: &Server) -> bool {
        server.system != self.system || server.timeline < self.timeline
    }
}

/// Chooses the server to use. Keeps the current host if several addresses lead to the same server.
pub fn choose(sightings: &[Sighting], fence: &mut Fence, current: Option<usize>) -> Choice {
    let answered = sightings.iter().enumerate().filter_map(|(index, sighting)| match sighting {
        Sighting::Answered(server) => Some((index, *server)),
        Sighting::Unknown | Sighting::Unreachable(_) => None,
    });
    let answered: Vec<(usize, Server)> = answered.collect();
    fence.raise(&answered);
    let mut usable = answered.into_iter().filter(|(_, server)| server.is_usable && !fence.refuses(server));
    let Some((first, server)) = usable.next() else { return Choice::Nothing };
    let (mut chosen, mut answer) = (first, server);
    for (index, other) in usable {
        // Without a timeline nothing tells an old primary from a new one; the condition of the URL has to suffice.
        if server.timeline != 0 && other.started != server.started {
            return Choice::Conflict(first, index);
        }
        if current == Some(index) {
            (chosen, answer) = (index, other);
        }
    }
    Choice::Host(chosen, answer)
}

/// Explains why a host is not used.
pub fn fault(sighting: &Sighting, fence: Fence) -> Option<String> {
    match sighting {
        Sighting::Unknown => Some("it was not asked".to_owned()),
        Sighting::Unreachable(reason) => Some(reason.clone()),
        Sighting::Answered(server) if server.is_standby => Some("it is a standby".to_owned()),
        Sighting::Answered(server) if !server.is_usable => Some("it is read-only".to_owned()),
        Sighting::Answered(_) if fence.system != 0 && fence.is_stranger(sighting) => {
            Some("it belongs to another cluster".to_owned())
        }
        Sighting::Answered(server) if fence.refuses(server) => {
            Some(format!("it is on the old timeline {}; the newest is {}", server.timeline, fence.timeline))
        }
        Sighting::Answered(_) => None,
    }
}

#[cfg(test)]
mod tests;
