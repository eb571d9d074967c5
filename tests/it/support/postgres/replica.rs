//! Streaming standbys, and their promotion.

use std::fs;

use super::{PgCluster, USER, signal, succeed};

/// Returns the URL of `database` on several clusters, in the multi-host form of libpq.
pub fn url_of(clusters: &[&PgCluster], database: &str) -> String {
    let folders: Vec<String> = clusters.iter().map(|cluster| cluster.folder.display().to_string()).collect();
    format!("postgres://{USER}@/{database}?host={}&port=5432", folders.join(","))
}

impl PgCluster {
    /// Creates a cluster that is a standby of `primary`, and starts it.
    pub fn start_standby_of(primary: &Self) -> Self {
        let cluster = Self::prepare();
        cluster.become_standby_of(primary);
        cluster
    }

    /// Replaces the data of the stopped server by a copy of `primary`, and starts it as a standby.
    pub fn become_standby_of(&self, primary: &Self) {
        if self.data().exists() {
            fs::remove_dir_all(self.data()).expect("the old data");
        }
        let mut backup = self.program("pg_basebackup");
        backup.args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--username", USER, "--port=5432"]);
        succeed(backup.arg("--host").arg(&primary.folder).arg("--pgdata").arg(self.data()));
        self.configure("");
        self.start_again();
    }

    /// Sets whether each commit of the running server waits for a standby.
    pub fn require_standby(&self, is_required: bool) {
        self.write_standbys(if is_required { "*" } else { "" });
        succeed(self.program("pg_ctl").arg("-D").arg(self.data()).arg("reload"));
    }

    /// Sets the standbys for which commits wait, from the next start on.
    pub fn write_standbys(&self, names: &str) {
        let line = format!("synchronous_standby_names = '{names}'\n");
        fs::write(self.folder.join("standbys.conf"), line).expect("standbys.conf");
    }

    /// Promotes the standby, and waits until it accepts writes.
    pub fn promote(&self) {
        succeed(self.program("pg_ctl").arg("-D").arg(self.data()).args(["-w", "promote"]));
    }

    /// Kills all processes of the server. Its data is then only good for removal.
    pub fn kill(&self) {
        self.thaw();
        let processes = self.processes();
        signal("KILL", &processes);
        let is_alive = |id: &u32| {
            fs::read_to_string(format!("/proc/{id}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
        };
        while processes.iter().any(is_alive) {
            std::thread::yield_now();
        }
    }
}
