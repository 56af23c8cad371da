//! Progress on stderr while a rehearsal waits.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use backfire_model::predict::predict;
use backfire_model::scenario::Scenario;
use backfire_rehearsal::recorder::Watcher;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows how a rehearsal is getting on.
pub struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    printed_ms: Arc<Mutex<u64>>,
}

impl Progress {
    /// Begins. On a terminal it is one line that changes; elsewhere a line now and then.
    ///
    /// # Errors
    /// When there is no prediction for the scenario.
    pub fn start(scenario: &Scenario, scale: f64, quiet: bool) -> Result<Self, String> {
        let prediction = scenario
            .plan(scale, false)
            .map_err(|error| error.to_string())
            .and_then(|plan| predict(&plan).map_err(|error| error.to_string()))?;
        let printed_ms = Arc::new(Mutex::new(0));
        if quiet {
            return Ok(Self { bar: None, lines: false, printed_ms });
        }
        let seconds = prediction.application_ends_ms as f64 / 1000.0;
        let headline = format!("{}: the application should end after {seconds:.1} s", scenario.name);
        if !std::io::stderr().is_terminal() {
            eprintln!("{headline}");
            return Ok(Self { bar: None, lines: true, printed_ms });
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.set_message(headline);
        bar.enable_steady_tick(Duration::from_millis(120));
        Ok(Self { bar: Some(bar), lines: false, printed_ms })
    }

    /// What the recorder tells of every event.
    pub fn watcher(&self) -> Option<Watcher> {
        if self.bar.is_none() && !self.lines {
            return None;
        }
        let (bar, printed_ms) = (self.bar.clone(), Arc::clone(&self.printed_ms));
        Some(Arc::new(move |event, ledger| {
            let counts = ledger.counts(0, 0);
            let message =
                message([counts.executions, counts.sends], [ledger.running_copies(), ledger.waiting_resends()]);
            match &bar {
                Some(bar) => bar.set_message(message),
                None => {
                    let mut printed_ms = printed_ms.lock();
                    if event.at_ms >= *printed_ms + LINE_EVERY.as_millis() as u64 {
                        *printed_ms = event.at_ms;
                        eprintln!("{:>6.1} s  {message}", event.at_ms as f64 / 1000.0);
                    }
                }
            }
        }))
    }

    /// Says something beside the progress.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// Takes the progress away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How far it is: executions and sends so far, copies and resends now.
fn message([executions, sends]: [u64; 2], [copies, resends]: [u64; 2]) -> String {
    let (runs, waits) = (verb("run", copies), verb("wait", resends));
    format!(
        "{}, {}; now {} {runs}, {} {waits}",
        number(executions, "execution", "executions"),
        number(sends, "send", "sends"),
        number(copies, "copy", "copies"),
        number(resends, "resend", "resends"),
    )
}

fn number(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn verb(verb: &str, number: u64) -> String {
    if number == 1 { format!("{verb}s") } else { verb.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        for (so_far, now, expected) in [
            ([1, 1], [1, 1], "1 execution, 1 send; now 1 copy runs, 1 resend waits"),
            ([4, 8], [4, 0], "4 executions, 8 sends; now 4 copies run, 0 resends wait"),
        ] {
            assert_eq!(message(so_far, now), expected);
        }
    }
}
