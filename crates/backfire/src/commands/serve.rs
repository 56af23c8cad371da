//! `backfire serve`: the lab server alone.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use backfire_server::net::tls::TlsPart;
use backfire_server::net::{Limits, Tls};
use backfire_server::profile::Profile;
use backfire_server::{Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::Serve;
use crate::exit::Exit;

/// How long operations may take to end after a signal before it is said that some do not.
const BEFORE_COMPLAINT: Duration = Duration::from_millis(300);

/// Serves until SIGINT or SIGTERM; a second one ends it at once.
pub fn run(arguments: &Serve) -> Exit {
    if !arguments.bind.is_loopback() && !arguments.allow_remote && !arguments.auth {
        return Exit::could_not_run(format!(
            "--bind {} can be reached from other machines, and nobody has to log in; add --auth, or --allow-remote if that \
             is wanted",
            arguments.bind
        ));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Exit::could_not_run(format!("cannot start: {error}")),
    };
    let result = runtime.block_on(serve(arguments));
    // What still runs on a thread of its own is not waited for.
    runtime.shutdown_background();
    match result {
        Ok(()) => Exit::Fine,
        Err(error) => Exit::could_not_run(error),
    }
}

/// The signals that stop a server.
struct Signals {
    interrupted: Signal,
    terminated: Signal,
}

impl Signals {
    fn new() -> Result<Self, String> {
        let of = |kind| signal(kind).map_err(|error| error.to_string());
        Ok(Self { interrupted: of(SignalKind::interrupt())?, terminated: of(SignalKind::terminate())? })
    }

    /// Resolves at the next.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}

async fn serve(arguments: &Serve) -> Result<(), String> {
    // A connection is an open file, and the usual limit is 1024. What the system does not allow stays as it is.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let wanted = SocketAddr::new(arguments.bind, arguments.port);
    let listener = TcpListener::bind(wanted).await.map_err(|error| format!("cannot listen on {wanted}: {error}"))?;
    let bound = listener.local_addr().map_err(|error| error.to_string())?;
    let address = match &arguments.advertise {
        Some(host) => host.clone().with_port(host.port().or(Some(bound.port()))).to_string(),
        None if bound.ip().is_unspecified() => format!("127.0.0.1:{}", bound.port()),
        None => bound.to_string(),
    };
    if arguments.advertise.is_none() && bound.ip().is_unspecified() {
        eprintln!(
            "warning: drivers are told that the server is at {address}, so those on other machines will look for it on \
             their own; name a host that they reach with --advertise HOST"
        );
    }
    let mut config = ServerConfig::new(address.clone(), now_ms());
    // The parser allows known names only.
    config.profile = Profile::by_name(&arguments.profile).ok_or("unknown profile")?;
    config.set_name = (!arguments.standalone).then(|| arguments.repl_set.clone());
    config.test_commands = !arguments.no_test_commands;
    config.max_connections = arguments.max_connections;
    let patience = Duration::from_millis(arguments.client_timeout_ms);
    config.limits = Limits { message: patience, reply: patience, ..Limits::DEFAULT };
    // Nonces and salts are made from it.
    config.seed = rand::random();
    config.auth = arguments.auth;
    config.tls = tls(arguments)?;
    config.argv = std::env::args().collect();
    let password = arguments.auth.then(|| password(arguments.password_file.as_deref())).transpose()?;
    let server = Server::new(config);
    if let Some(password) = password {
        let added = server.add_user("admin", &arguments.user, &password, &["root"]);
        added.map_err(|error| format!("cannot add the user {}: {}", arguments.user, error.message))?;
    }

    let mut signals = Signals::new()?;
    let line = format!("mongodb://{address}/{}\n", parameters(arguments));
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|error| format!("cannot print: {error}"))?;
    drop(out);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server.run(listener, async { drop(stopped.await) });
    tokio::pin!(serving);
    let failed = |error| format!("cannot take connections any more: {error}");
    tokio::select! {
        result = &mut serving => return result.map_err(failed),
        () = signals.next() => {}
    }
    drop(stop);
    let complaint = async {
        tokio::time::sleep(BEFORE_COMPLAINT).await;
        complain(&server);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = &mut serving => result.map_err(failed),
        () = signals.next() => Ok(()),
        () = complaint => Ok(()),
    }
}

/// What a client's connection string needs behind the host.
fn parameters(arguments: &Serve) -> String {
    let set = (!arguments.standalone).then(|| format!("replicaSet={}", arguments.repl_set));
    let source = arguments.auth.then(|| "authSource=admin".to_owned());
    let tls = arguments.tls_cert.as_ref().map(|_| "tls=true".to_owned());
    let all: Vec<_> = [set, source, tls].into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
}

/// The first user's password.
fn password(file: Option<&Path>) -> Result<String, String> {
    const VARIABLE: &str = "BACKFIRE_PASSWORD";
    let password = match file {
        Some(path) => {
            let text = read(path, "--password-file")?;
            let text = String::from_utf8(text).map_err(|_| format!("--password-file {}: not UTF-8", path.display()))?;
            text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line)).to_owned()
        }
        None => std::env::var(VARIABLE).map_err(|_| {
            format!("--auth needs the password of the first user: --password-file FILE, or the variable {VARIABLE}")
        })?,
    };
    match (password.is_empty(), file) {
        (false, _) => Ok(password),
        (true, Some(path)) => Err(format!("--password-file {}: there is no password in it", path.display())),
        (true, None) => Err(format!("the variable {VARIABLE} is empty")),
    }
}

/// The certificate, the key and the authorities.
fn tls(arguments: &Serve) -> Result<Option<Tls>, String> {
    let (Some(cert), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else { return Ok(None) };
    let (cert_text, key_text) = (read(cert, "--tls-cert")?, read(key, "--tls-key")?);
    let ca = arguments.tls_ca.as_deref().map(|path| read(path, "--tls-ca").map(|text| (path, text))).transpose()?;
    let tls = Tls::from_pem(&cert_text, &key_text, ca.as_ref().map(|(_, text)| &text[..]));
    tls.map(Some).map_err(|error| match (error.part, &ca) {
        (TlsPart::Key, _) => format!("--tls-key {}: {error}", key.display()),
        (TlsPart::Authorities, Some((path, _))) => format!("--tls-ca {}: {error}", path.display()),
        _ => format!("--tls-cert {}: {error}", cert.display()),
    })
}

fn read(path: &Path, option: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{option} {}: {error}", path.display()))
}

/// Says why a server does not stop yet.
fn complain(server: &Server) {
    let left = server.shared().ops.all();
    let mut namespaces: Vec<_> = left.iter().map(|op| op.view().ns.clone()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let operations = match left.len() {
        0 => return,
        1 => "1 operation does not look for interrupts".to_owned(),
        many => format!("{many} operations do not look for interrupts"),
    };
    eprintln!(
        "stopping: {operations} ({}); after 5 s their connections are closed without a reply. Another signal ends it at once",
        namespaces.join(", ")
    );
}

/// The wall clock, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
