//! A server process: how each is started, what it costs, how it ends.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Args;

/// Clock ticks per second in `/proc/<pid>/stat`: 100 on every Linux that Rust runs on.
const TICKS_PER_S: f64 = 100.0;

/// A running server, ended when dropped.
pub struct Peer {
    /// What the tables call it.
    pub name: &'static str,
    /// `host:port`.
    pub address: String,
    child: Child,
    /// Its files, removed with it.
    folder: Option<std::path::PathBuf>,
}

impl Peer {
    /// `backfire serve`.
    pub fn backfire(program: &Path) -> Self {
        let mut child = Command::new(program)
            .args(["serve", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("backfire serve starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its first line");
        let address = line.trim().trim_start_matches("mongodb://").split('/').next().expect("an address").to_owned();
        Self { name: "backfire", address, child, folder: None }
    }

    /// mongo-java-server with its memory backend.
    pub fn java(classes: &str) -> Self {
        let port = free_port().to_string();
        Self::listening(
            "mongo-java-server",
            &port,
            Command::new("java").args(["-cp", classes, "backfire.bench.Peer", &port]),
            None,
        )
    }

    /// FerretDB on SQLite.
    pub fn ferretdb(program: &Path) -> Self {
        let (port, folder) = (free_port().to_string(), new_folder("ferretdb"));
        let mut command = Command::new(program);
        command.args(["--telemetry=disable", "--handler=sqlite", "--debug-addr=-", "--log-level=error"]);
        command.arg(format!("--listen-addr=127.0.0.1:{port}"));
        command.arg(format!("--sqlite-url=file:{}/", folder.display()));
        command.arg(format!("--state-dir={}", folder.display()));
        Self::listening("FerretDB SQLite", &port, &mut command, Some(folder))
    }

    /// A real mongod, standalone.
    pub fn mongod(program: &Path) -> Self {
        let (port, folder) = (free_port().to_string(), new_folder("mongod"));
        let mut command = Command::new(program);
        command.args(["--bind_ip", "127.0.0.1", "--port", &port, "--quiet", "--dbpath"]).arg(&folder);
        Self::listening("mongod", &port, &mut command, Some(folder))
    }

    /// The bare echo: this program again.
    pub fn echo() -> Self {
        let port = free_port().to_string();
        let program = std::env::current_exe().expect("this program has a path");
        Self::listening("echo", &port, Command::new(program).args(["echo", &port]), None)
    }

    /// All that can be had.
    pub fn all(args: &Args) -> Vec<Self> {
        let mut peers = vec![Self::backfire(&args.backfire)];
        peers.extend(args.java_classes.as_deref().map(Self::java));
        peers.extend(args.ferretdb.as_deref().map(Self::ferretdb));
        peers.extend(args.mongod.as_deref().map(Self::mongod));
        peers
    }

    fn listening(name: &'static str, port: &str, command: &mut Command, folder: Option<std::path::PathBuf>) -> Self {
        let child =
            command.stdout(Stdio::null()).spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let mut peer = Self { name, address: format!("127.0.0.1:{port}"), child, folder };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(&peer.address).is_err() {
            let ended = peer.child.try_wait().ok().flatten();
            assert!(ended.is_none() && Instant::now() < until, "{name} does not listen: {ended:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        peer
    }

    /// Processor time that it has used, in seconds.
    pub fn cpu_s(&self) -> f64 {
        let text = self.proc("stat");
        // The name, in brackets, may hold spaces; user and system time are the 12th and 13th field after it.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(f64::NAN);
        (ticks(11) + ticks(12)) / TICKS_PER_S
    }

    /// Memory that it has, in bytes.
    pub fn resident_bytes(&self) -> f64 {
        self.proc("statm").split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(f64::NAN) * 4096.0
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("a running process")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

fn new_folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("backfire-bench-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for its files");
    folder
}
