//! A private PostgreSQL for tests: an unprivileged process on a socket in a temporary folder, without TCP.
//!
//! A small shell process waits for the end of a pipe that only the test process holds. However that process ends, the
//! pipe ends with it; then the shell stops the server by its process id and removes the folder.

mod installation;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use postgres::{Client, NoTls};

use crate::home::{NOBODY, User};
use crate::skipped::skip;
use crate::tls::ServerIdentity;

use installation::{folder_with_data, programs};

pub(crate) use installation::unprivileged;

/// The role that tests connect as: not a superuser, and subject to row-level security.
pub const ROLE: &str = "agent";
/// The superuser of the cluster.
pub const SUPERUSER: &str = "postgres";

/// Starts the server, prints its process id, and when standard input ends, stops it and removes its folder, unless it
/// read `keep` before. It always waits for the server: a process that ended and that nobody waited for keeps its id,
/// and PostgreSQL does not start while the id in its lock file is in use.
const KEEPER: &str = r#"
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= $3 >>"$2/log" 2>&1 &
server=$!
echo "$server"
read -r data
kill -QUIT "$server" 2>/dev/null
wait "$server"
[ "$data" = keep ] || rm -rf "$2"
"#;

/// Mounts a small disk on the data folder; only processes started from here see it, and it ends with them.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o "size=$1" tmpfs "$2" && cp -a "$2-template/." "$2" && chown -R "$3" "$2" && chmod 700 "$2" &&
shift 3 && exec "$@"
"#;

/// The space that `free_disk` releases.
const BALLAST_BYTES: usize = 16 << 20;

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    programs: PathBuf,
    /// The size of the data's own disk, if it has one.
    disk: Option<&'static str>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    server: u32,
    keeper: Child,
    /// Closing it is the signal to stop.
    pipe: ChildStdin,
}

/// What happens to the data when a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataOnStop {
    Kept,
    Removed,
}

impl Cluster {
    /// The cluster of this process, started by the first call; `None`, like all the others, if no PostgreSQL can run
    /// here, after naming that as skipped.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// A cluster for one test, with its own settings (`fsync=off`).
    pub fn start(settings: &[&str]) -> Option<Self> {
        let programs = programs()?;
        let folder = folder_with_data(&programs);
        Some(Self::run_in(folder, programs, None, settings))
    }

    /// A cluster on its own disk, of a size such as `120m`. It cannot be killed and restarted: the disk ends with it.
    /// `None` also if this user may not mount a disk.
    pub fn start_on_disk_of(size: &'static str, settings: &[&str]) -> Option<Self> {
        let programs = programs()?;
        let may_mount =
            Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status();
        if User::find() != User::Nobody || !may_mount.is_ok_and(|status| status.success()) {
            skip("PostgreSQL on a full disk", "this user may not mount a disk");
            return None;
        }
        let folder = folder_with_data(&programs);
        fs::rename(folder.join("data"), folder.join("data-template")).expect("the folder is ours");
        fs::create_dir(folder.join("data")).expect("the folder is ours");
        Some(Self::run_in(folder, programs, Some(size), settings))
    }

    /// A cluster that also listens on its own loopback address, where it uses this certificate and refuses
    /// unencrypted connections. Returns the address.
    pub fn start_with_tls(identity: &ServerIdentity) -> Option<(Self, String)> {
        let files = [("server.crt", identity.certificate.as_str()), ("server.key", &identity.key)];
        let rules = "local all all trust\nhostssl all all 127.0.0.0/8 trust\n";
        Self::start_on_loopback(rules, &files, &["ssl=on"])
    }

    /// A cluster that also listens on its own loopback address, where it asks for a password, as a package of a
    /// distribution sets it up. Returns the address.
    pub fn start_with_passwords() -> Option<(Self, String)> {
        let rules = "local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n";
        Self::start_on_loopback(rules, &[], &[])
    }

    fn start_on_loopback(rules: &str, files: &[(&str, &str)], settings: &[&str]) -> Option<(Self, String)> {
        let programs = programs()?;
        let folder = folder_with_data(&programs);
        let data = folder.join("data");
        // The whole network 127.0.0.0/8 is this machine, so every cluster gets its own address with the usual port.
        static STARTED: AtomicU8 = AtomicU8::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed) % 64;
        let [_, _, b, c] = std::process::id().to_be_bytes();
        let address = format!("127.{}.{b}.{c}", 64 + number);
        for (name, text) in [("pg_hba.conf", rules)].iter().chain(files) {
            let path = data.join(name);
            fs::write(&path, text).expect("the cluster is ours");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the cluster is ours");
            if User::find() == User::Nobody {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
            }
        }
        let listen = format!("listen_addresses={address}");
        let settings = [&[listen.as_str()], settings].concat();
        Some((Self::run_in(folder, programs, None, &settings), address))
    }

    /// Where the server's own programs are: `psql`, `pg_dump`.
    pub fn programs_folder(&self) -> &Path {
        &self.programs
    }

    fn run_in(folder: PathBuf, programs: PathBuf, disk: Option<&'static str>, settings: &[&str]) -> Self {
        let cluster = Self { folder, programs, disk, running: Mutex::default() };
        cluster.run(settings);
        cluster.sql("postgres", &format!("CREATE ROLE {ROLE} LOGIN"));
        cluster
    }

    /// The folder of the socket.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// The address of a database for a tenant.
    pub fn address(&self, database: &str, role: &str, tenant: &str) -> String {
        format!("postgres://{role}@/{database}?host={}&tenant={tenant}", self.folder.display())
    }

    /// Creates a fresh database that the role may use; returns its name.
    pub fn database(&self) -> String {
        static NUMBER: Mutex<u32> = Mutex::new(0);
        let mut number = NUMBER.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let name = format!("test_{number}");
        drop(number);
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER {ROLE}"));
        name
    }

    /// Runs statements as the superuser, who bypasses row-level security; returns their output.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// The number that a query returns, over a connection that is kept: starting `psql` takes far longer than the query.
    pub fn count(&self, database: &str, query: &str) -> u64 {
        static CONNECTIONS: Mutex<BTreeMap<(PathBuf, String), Client>> = Mutex::new(BTreeMap::new());
        let mut open = CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = open.entry((self.folder.clone(), database.to_owned())).or_insert_with(|| {
            let mut config = postgres::Config::new();
            config.host_path(&self.folder).user(SUPERUSER).dbname(database);
            config.connect(NoTls).expect("the cluster accepts its superuser")
        });
        let row = connection.query_one(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
        u64::try_from(row.get::<_, i64>(0)).expect("a count is not negative")
    }

    /// `psql` as the superuser.
    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", SUPERUSER, "-d", database, "-h"]);
        psql.arg(&self.folder).env_clear();
        psql
    }

    /// Like `sql`, but returns the error.
    pub fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let output = self.psql(database).args(["-A", "-t", "-c", statements]).output();
        let output = output.expect("psql is installed with the server");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Fills a table with rows in the text format of `COPY`, as the superuser: triggers fire, row-level security does
    /// not apply. `columns` is the table with the given columns.
    pub fn copy_in(&self, database: &str, columns: &str, rows: impl Iterator<Item = String>) {
        let mut psql = self
            .psql(database)
            .args(["-c", &format!("COPY {columns} FROM STDIN")])
            .stdin(Stdio::piped())
            .spawn()
            .expect("psql is installed with the server");
        let mut input = BufWriter::new(psql.stdin.take().expect("its input is a pipe"));
        for row in rows {
            writeln!(input, "{row}").expect("psql reads");
        }
        drop(input.into_inner().expect("psql reads"));
        assert!(psql.wait().is_ok_and(|status| status.success()), "the rows were copied");
    }

    /// Fills the disk to its last page, without using the write-ahead log. Only for a cluster on its own disk.
    pub fn fill_disk(&self, database: &str) {
        fs::write(self.ballast(), vec![1; BALLAST_BYTES]).expect("the disk has room");
        let table = "CREATE UNLOGGED TABLE junk (t text); ALTER TABLE junk ALTER t SET STORAGE PLAIN";
        self.sql(database, table);
        for rows in [1000, 100, 10, 1] {
            let more = format!("INSERT INTO junk SELECT repeat('x', 8000) FROM generate_series(1, {rows})");
            let refused = loop {
                if let Err(refused) = self.try_sql(database, &more) {
                    break refused;
                }
            };
            assert!(refused.contains("No space left on device"), "{refused}");
        }
    }

    /// Frees space on a full disk. Not by a statement, which might fail on a full disk.
    pub fn free_disk(&self) {
        fs::remove_file(self.ballast()).expect("the disk was filled");
    }

    /// A file on the cluster's own disk, visible only to its processes.
    fn ballast(&self) -> PathBuf {
        let folder = self.folder.strip_prefix("/").expect("the folder is absolute");
        PathBuf::from(format!("/proc/{}/root", self.server_process())).join(folder).join("data/ballast")
    }

    /// A backup of a database, as `pg_dump` makes it.
    pub fn dump(&self, database: &str) -> Vec<u8> {
        let dumped = Command::new(self.programs.join("pg_dump"))
            .args(["-U", SUPERUSER, "-d", database, "-h"])
            .arg(&self.folder)
            .env_clear()
            .output();
        let dumped = dumped.expect("pg_dump is installed with the server");
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        dumped.stdout
    }

    /// A fresh database restored from a backup; returns its name.
    pub fn restored(&self, dump: &[u8]) -> String {
        let name = self.database();
        let file = self.folder.join(format!("{name}.sql"));
        fs::write(&file, dump).expect("the folder is ours");
        let restored = self.psql(&name).arg("-f").arg(&file).output();
        let restored = restored.expect("psql is installed with the server");
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        name
    }

    /// Requires a password from everyone but the superuser; returns once new connections are asked for one.
    pub fn require_passwords(&self) {
        let loaded = || self.sql("postgres", "SELECT pg_conf_load_time()");
        let before = loaded();
        let rules = format!("local all {SUPERUSER} trust\nlocal all all scram-sha-256\n");
        fs::write(self.folder.join("data/pg_hba.conf"), rules).expect("the cluster is ours");
        self.sql("postgres", "SELECT pg_reload_conf()");
        while loaded() == before {
            std::thread::yield_now();
        }
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.folder.join("log")).expect("the server logs to a file");
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The process id of the server.
    pub fn server_process(&self) -> u32 {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().expect("the cluster runs").server
    }

    /// Kills the server as a crash would, and returns once its processes are gone.
    pub fn kill(&self) {
        let server = self.server_process().to_string();
        let own = children_of(&server);
        let killed = Command::new("kill").args(["-9", &server]).status();
        assert!(killed.is_ok_and(|status| status.success()), "the server could be killed");
        self.stop(DataOnStop::Kept);
        for child in own {
            while !has_ended(&child) {
                std::thread::yield_now();
            }
        }
    }

    /// Stops all processes of the server, as on a host that is suspended or out of memory.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets them continue.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let server = self.server_process().to_string();
        let sent = Command::new("kill").arg(signal).arg(&server).args(children_of(&server)).status();
        assert!(sent.is_ok_and(|status| status.success()), "the server's processes could be signalled");
    }

    /// Starts the server again over the same data; returns once it accepts connections.
    pub fn restart(&self) {
        self.run(&[]);
    }

    fn run(&self, settings: &[&str]) {
        // A process of a killed server that was just being started may hold its memory, so a failed start is repeated.
        for _ in 0..100 {
            self.launch(settings);
            if self.accepts_connections() {
                return;
            }
            self.stop(DataOnStop::Kept);
        }
        panic!("PostgreSQL did not start: {}", self.log());
    }

    fn launch(&self, settings: &[&str]) {
        let settings: Vec<String> = settings.iter().map(|setting| format!("-c {setting}")).collect();
        let mut keeper = match self.disk {
            None => unprivileged("sh"),
            Some(size) => {
                let plain = unprivileged("sh");
                let mut disk = Command::new("unshare");
                disk.args(["--mount", "sh", "-c", SMALL_DISK, "disk", size]).arg(self.folder.join("data"));
                disk.arg(format!("{NOBODY}:{NOBODY}")).arg(plain.get_program()).args(plain.get_args());
                disk
            }
        };
        keeper.args(["-c", KEEPER, "keeper"]).arg(&self.programs).arg(&self.folder);
        keeper.arg(settings.join(" ")).current_dir(&self.folder).env_clear().env("PATH", "/usr/bin:/bin");
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = keeper.spawn().expect("a shell is there");
        let pipe = keeper.stdin.take().expect("its input is a pipe");
        let mut line = String::new();
        let output = keeper.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the keeper prints a process id");
        let server = line.trim().parse().expect("the keeper prints a process id");
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running { server, keeper, pipe });
    }

    /// Waits until the server answers; false if it has ended instead.
    fn accepts_connections(&self) -> bool {
        let server = self.server_process().to_string();
        loop {
            let ready = Command::new(self.programs.join("pg_isready"))
                .args(["-q", "-U", SUPERUSER, "-d", "postgres", "-t", "1", "-h"])
                .arg(&self.folder)
                .env_clear()
                .status();
            if ready.is_ok_and(|status| status.success()) {
                return true;
            }
            if has_ended(&server) {
                return false;
            }
            std::thread::yield_now();
        }
    }

    fn stop(&self, data: DataOnStop) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { mut keeper, mut pipe, .. }) = running else { return };
        if data == DataOnStop::Kept {
            pipe.write_all(b"keep\n").expect("the keeper reads until its input ends");
        }
        drop(pipe);
        let _ = keeper.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop(DataOnStop::Removed);
    }
}

/// A process's state and its parent, if it exists.
fn state_and_parent(process: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned);
    Some((fields.next()?, fields.next()?))
}

fn children_of(server: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("processes can be listed").flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|process| state_and_parent(process).is_some_and(|(_, parent)| parent == server)).collect()
}

/// Whether a process is gone, or only its id is left.
fn has_ended(process: &str) -> bool {
    state_and_parent(process).is_none_or(|(state, _)| state == "Z")
}
