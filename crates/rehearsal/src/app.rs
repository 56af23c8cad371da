//! A rehearsal with somebody else's program in the place of the client.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use backfire_model::run::Run;
use backfire_model::scenario::{DriverRules, Scenario};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::rehearse::{Options, RehearsalError, Stage};

/// How a program is run.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// The command line, for a shell.
    pub command: String,
    /// The collection whose writes count and are stalled; `None`: every collection of an application.
    pub namespace: Option<String>,
    /// The program is ended after this long.
    pub timeout: Option<Duration>,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppEnd {
    /// By itself, with this status (`None`: by a signal).
    Exited(Option<i32>),
    /// It was ended because its time was over.
    TimedOut,
}

/// What a shell ends with when it could not run a command.
const SHELL_REFUSALS: [(i32, &str); 2] = [(126, "it cannot be executed"), (127, "there is no such command")];

/// The process group of a program: the shell and everything it started. Killed when dropped.
struct Group(Option<Pid>);

impl Group {
    fn kill(&self) {
        if let Some(id) = self.0 {
            // It is an error only when nobody is left.
            let _ = killpg(id, Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts the server with the scenario's stall, runs a program with `BACKFIRE_URI` in its environment, and counts what
/// it did. Its output goes to stderr.
///
/// # Errors
/// When it could not be run; a run that differs from its prediction is no error, nor is a program that fails.
pub async fn rehearse_app(
    scenario: &Scenario,
    options: &Options,
    app: &AppOptions,
) -> Result<(Run, AppEnd), RehearsalError> {
    let not_of_app = [
        ("gateway", scenario.gateway.is_some()),
        ("retry.budget", scenario.retry.budget.is_some()),
        ("client.cancel_after_ms", scenario.client.cancel_after_ms.is_some()),
        ("client.driver = \"unbounded\"", scenario.client.driver == DriverRules::Unbounded),
    ];
    if let Some((what, _)) = not_of_app.into_iter().find(|(_, is_set)| *is_set) {
        return Err(RehearsalError::NotOfApp(what));
    }
    let mut scenario = scenario.clone();
    if let Some(namespace) = &app.namespace {
        scenario.workload.namespace.clone_from(namespace);
    }
    let stage = Stage::start(&scenario, options, app.namespace.clone(), app.namespace.is_some()).await?;
    stage.set_up().await?;
    stage.recorder.begin();
    let playing = tokio::spawn(Arc::clone(&stage.stalling).play());
    let failed = |error| RehearsalError::App(app.command.clone(), error);
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(&app.command)
        .env("BACKFIRE_URI", stage.uri.to_uri_string())
        .env("BACKFIRE_NAMESPACE", stage.namespace.to_string())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::from(std::io::stderr()))
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let end = match app.timeout {
        None => AppEnd::Exited(child.wait().await.map_err(failed)?.code()),
        Some(timeout) => match tokio::time::timeout(timeout, child.wait()).await {
            Ok(status) => AppEnd::Exited(status.map_err(failed)?.code()),
            Err(_) => {
                group.kill();
                child.wait().await.map_err(failed)?;
                AppEnd::TimedOut
            }
        },
    };
    // What the command left running in the background would go on writing.
    drop(group);
    playing.abort();
    if let (AppEnd::Exited(Some(status)), 0) = (end, stage.recorder.with_ledger(|ledger| ledger.counts(0, 0).sends))
        && let Some((_, why)) = SHELL_REFUSALS.iter().find(|(refusal, _)| *refusal == status)
    {
        return Err(RehearsalError::AppNotRun(app.command.clone(), status, why));
    }
    let waiting_resends = stage.recorder.with_ledger(backfire_model::ledger::Ledger::waiting_resends);
    let run = stage.finish(options.scale, waiting_resends).await?;
    Ok((run, end))
}
