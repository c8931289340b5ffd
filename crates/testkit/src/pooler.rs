//! PgBouncer in transaction mode in front of a cluster: every transaction may run on another server connection, and
//! one connection serves many clients in turn.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use tempfile::TempDir;

use crate::postgres::{Cluster, ROLE, unprivileged};
use crate::skipped::skip;

/// Starts the pooler, and stops it by its process id when standard input ends, which it does with the test process.
const KEEPER: &str = r#"
"$1" -q "$2/pgbouncer.ini" >>"$2/log" 2>&1 &
pooler=$!
read -r _
kill -INT "$pooler" 2>/dev/null
wait "$pooler"
"#;

/// Fewer server connections than clients, so that they must share.
const CONNECTIONS: u32 = 3;

/// A running PgBouncer.
#[derive(Debug)]
pub struct Pooler {
    folder: TempDir,
    keeper: Child,
    /// Closing it is the signal to stop.
    pipe: Option<ChildStdin>,
}

impl Pooler {
    /// `None` if PgBouncer is not installed, after naming that as skipped.
    pub fn start(cluster: &Cluster) -> Option<Self> {
        Self::with_connections(cluster, CONNECTIONS)
    }

    /// The same with this many connections to each database.
    pub fn with_connections(cluster: &Cluster, connections: u32) -> Option<Self> {
        let found =
            ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().find(|path| Path::new(path).exists());
        let Some(program) = found else {
            skip("sessions through PgBouncer", "PgBouncer is not installed");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("pb").tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("the folder is ours");
        let (own, server) = (folder.path().display(), cluster.socket_folder().display());
        let settings = format!(
            "[databases]\n* = host={server} port=5432\n[pgbouncer]\nlisten_addr =\nlisten_port = 5432\n\
             unix_socket_dir = {own}\nauth_type = trust\nauth_file = {own}/users\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 500\n"
        );
        fs::write(folder.path().join("pgbouncer.ini"), settings).expect("the folder is ours");
        fs::write(folder.path().join("users"), format!("\"{ROLE}\" \"\"\n")).expect("the folder is ours");
        let mut keeper = unprivileged("sh");
        keeper.args(["-c", KEEPER, "keeper", program]).arg(folder.path()).current_dir(folder.path());
        let mut keeper = keeper.stdin(Stdio::piped()).spawn().expect("a shell is there");
        let pipe = keeper.stdin.take();
        let pooler = Self { folder, keeper, pipe };
        while UnixStream::connect(pooler.socket()).is_err() {
            let ended = !Path::new(&format!("/proc/{}", pooler.keeper.id())).exists();
            assert!(!ended, "{}", fs::read_to_string(pooler.folder.path().join("log")).unwrap_or_default());
            std::thread::yield_now();
        }
        Some(pooler)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    /// The address of a database of the cluster, through the pooler.
    pub fn address(&self, database: &str, tenant: &str) -> String {
        format!("postgres://{ROLE}@/{database}?host={}&tenant={tenant}", self.folder.path().display())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.keeper.wait();
    }
}
