//! What a scenario says of a recording of it: the settings that decided, and the tickets.

use backfire_model::back_off::BackOff;
use backfire_model::predict::{Distribution, Stall};
use backfire_model::scenario::Scenario;

use crate::context::{Context, Setting};
use crate::text::{many, span};

/// The context of a run of `scenario`, every time of which was multiplied by `scale`.
pub fn context(scenario: &Scenario, scale: f64) -> Context {
    Context {
        scenario: Some(scenario.name.clone()),
        tickets: Some(scenario.server.write_tickets),
        settings: settings(scenario, scale),
        ..Context::default()
    }
}

fn settings(scenario: &Scenario, scale: f64) -> Vec<Setting> {
    let time = |ms: u64| match scale {
        1.0 => span(ms),
        _ => format!("{}, in this run {}", span(ms), span((ms as f64 * scale).round() as u64)),
    };
    let mut settings = Vec::new();
    let mut add = |name: &str, value: String, source: &str, note: Option<&str>| {
        let note = note.map(str::to_owned);
        settings.push(Setting { name: name.to_owned(), value, source: source.to_owned(), note });
    };
    const OF_SCENARIO: &str = "the scenario";
    let client = &scenario.client;
    // A scenario that was read has a connection string that can be read.
    if let Ok(uri) = client.uri.parse::<backfire_model::ConnectionString>() {
        let is_set = |name: &str| uri.occurrences().iter().any(|one| one.name().eq_ignore_ascii_case(name));
        let source = |name: &str| if is_set(name) { "the connection string" } else { "default of the driver" };
        let timeout = match uri.socket_timeout_ms() {
            0 => "none: waits for ever".to_owned(),
            ms => time(ms),
        };
        let is_client_clock = "the client's clock: when it runs out, the server goes on";
        add("socketTimeoutMS", timeout, source("socketTimeoutMS"), Some(is_client_clock));
        if let Some(ms) = uri.timeout_ms() {
            add("timeoutMS", time(ms), source("timeoutMS"), None);
        }
        add("retryWrites", uri.retry_writes().to_string(), source("retryWrites"), None);
    }
    match client.max_time_ms {
        Some(ms) => add("maxTimeMS", time(ms), OF_SCENARIO, Some("the server's clock")),
        None => add("maxTimeMS", "not set".to_owned(), "default", Some("nothing ends a write at the server")),
    }
    add("error handler", back_off(&scenario.retry.back_off), OF_SCENARIO, None);
    // The names of operations and stalls are those of the scenario file.
    let name = |value: serde_json::Value| crate::context::text_of(&value);
    let operation = name(serde_json::to_value(scenario.workload.operation).unwrap_or_default());
    add("write", format!("{operation} into {}", scenario.workload.namespace), OF_SCENARIO, None);
    if scenario.load.records_all() > 1 {
        // What stands before the colon is the scenario's name.
        let load = crate::simulation::text::headline(scenario);
        add("load", load.split_once(": ").map_or("", |(_, load)| load).to_owned(), OF_SCENARIO, None);
    }
    add("stall", stall(scenario.stall), OF_SCENARIO, None);
    add("write tickets", scenario.server.write_tickets.to_string(), OF_SCENARIO, None);
    add("server", format!("behaves like {}", scenario.profile), OF_SCENARIO, None);
    settings
}

/// As the constructor of Spring that makes it.
fn back_off(back_off: &BackOff) -> String {
    let retries = |retries: u64| many(retries, "retry");
    match back_off {
        BackOff::None => "no retry".to_owned(),
        BackOff::Fixed(fixed) => match fixed.max_retries {
            None => format!("FixedBackOff({}, UNLIMITED_ATTEMPTS)", fixed.interval_ms),
            Some(max) => {
                format!("FixedBackOff({}, {max}): {}", fixed.interval_ms, retries(u64::try_from(max).unwrap_or(0)))
            }
        },
        // What is set, by name.
        other => {
            let value = serde_json::to_value(other).unwrap_or_default();
            let fields = value.as_object().into_iter().flatten();
            let parts = fields.filter(|(name, value)| *name != "kind" && !value.is_null());
            let parts: Vec<String> = parts.map(|(name, value)| format!("{name} {value}")).collect();
            format!("{}: {}", value["kind"].as_str().unwrap_or_default(), parts.join(", "))
        }
    }
}

fn stall(stall: Stall) -> String {
    match stall {
        Stall::None => "none".to_owned(),
        Stall::FailCommand { hold_ms, times } => {
            format!("a fail point holds {} for {} each", many(times, "command"), span(hold_ms))
        }
        Stall::Engine => "the engine stands still, deaf to interrupts".to_owned(),
        Stall::Interruptible => "writes stand still where interrupts are heard".to_owned(),
        Stall::LostReply { times } => format!("the connection is closed in the place of {}", many(times, "reply")),
        Stall::Tickets => "others hold every ticket".to_owned(),
        Stall::Lock => "another operation holds the collection's lock".to_owned(),
        Stall::Sessions => "sessions are not given out".to_owned(),
        Stall::Slow { takes_ms, distribution: Distribution::Fixed } => format!("a write takes {}", span(takes_ms)),
        Stall::Slow { takes_ms, .. } => format!("a write takes {} on average", span(takes_ms)),
        Stall::Overload { times } => format!("the server refuses the first {} as overloaded", many(times, "write")),
        Stall::Reset { times } => format!("the connection is closed when {} arrive", many(times, "write")),
        Stall::Freeze => "the whole server stands still, handshakes and heartbeats included".to_owned(),
        Stall::StepDown => "the primary steps down, and nobody is primary".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backfire_model::scenario::BUILT_IN;

    #[test]
    fn every_built_in_scenario_says_its_settings() {
        for (name, _) in BUILT_IN {
            let context = context(&Scenario::built_in(name).unwrap(), 0.1);
            assert_eq!(context.scenario.as_deref(), Some(*name));
            assert!(context.settings.len() >= 7, "{name}");
            assert!(context.settings.iter().all(|setting| !setting.value.is_empty()), "{name}");
        }
    }

    #[test]
    fn settings_say_value_and_source() {
        let context = context(&Scenario::built_in("ticket-queue").unwrap(), 1.0);
        let rows: Vec<_> = context
            .settings
            .iter()
            .map(|setting| [setting.name.as_str(), setting.value.as_str(), setting.source.as_str()])
            .collect();
        assert_eq!(rows[0], ["socketTimeoutMS", "30.0 s", "the connection string"]);
        assert_eq!(rows[2], ["maxTimeMS", "20.0 s", "the scenario"]);
        assert_eq!(rows[3][1], "FixedBackOff(0, 7): 7 retries");
        assert_eq!(context.tickets, Some(5));
    }
}
