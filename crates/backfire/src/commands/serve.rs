//! `backfire serve`: the lab server alone.

use std::io::Write;
use std::net::SocketAddr;
use std::time::SystemTime;

use backfire_server::profile::Profile;
use backfire_server::{Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Serve;
use crate::exit::Exit;

/// Serves until SIGINT or SIGTERM.
pub fn run(arguments: &Serve) -> Exit {
    if !arguments.bind.is_loopback() && !arguments.allow_remote {
        return Exit::could_not_run(format!(
            "--bind {} can be reached from other machines, and there is no authentication; if that is wanted, add \
             --allow-remote",
            arguments.bind
        ));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Exit::could_not_run(format!("cannot start: {error}")),
    };
    match runtime.block_on(serve(arguments)) {
        Ok(()) => Exit::Fine,
        Err(error) => Exit::could_not_run(error),
    }
}

async fn serve(arguments: &Serve) -> Result<(), String> {
    // A connection is an open file, and the usual limit is 1024. What the system does not allow stays as it is.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let wanted = SocketAddr::new(arguments.bind, arguments.port);
    let listener = TcpListener::bind(wanted).await.map_err(|error| format!("cannot listen on {wanted}: {error}"))?;
    let bound = listener.local_addr().map_err(|error| error.to_string())?;
    let address = match &arguments.advertise {
        Some(host) => format!("{host}:{}", bound.port()),
        None if bound.ip().is_unspecified() => format!("127.0.0.1:{}", bound.port()),
        None => bound.to_string(),
    };
    let mut config = ServerConfig::new(address.clone(), now_ms());
    // The parser allows known names only.
    config.profile = Profile::by_name(&arguments.profile).ok_or("unknown profile")?;
    config.set_name = (!arguments.standalone).then(|| arguments.repl_set.clone());
    config.test_commands = !arguments.no_test_commands;
    config.max_connections = arguments.max_connections;
    config.seed = std::process::id().into();
    config.argv = std::env::args().collect();
    let server = Server::new(config);

    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let parameters = if arguments.standalone { String::new() } else { format!("?replicaSet={}", arguments.repl_set) };
    let line = format!("mongodb://{address}/{parameters}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|error| format!("cannot print: {error}"))?;
    drop(out);
    let stop = async {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
        tracing::info!("stopping");
    };
    server.run(listener, stop).await.map_err(|error| format!("cannot take connections any more: {error}"))
}

/// The wall clock, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
