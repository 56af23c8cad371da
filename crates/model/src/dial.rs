//! Dials: the numbers and words of a scenario that can be set, or swept over a range, by their field's own names.
//!
//! Each is one value in [`DIALS`]; help, the reference page and the command line are made from it.

use std::fmt;

use crate::back_off::{BackOff, Exponential, ExponentialMaxRetries, Fixed};
use crate::budget::RetryBudget;
use crate::load::{DeadLetterTopic, ErrorHandling};
use crate::predict::{Distribution, Stall};
use crate::scenario::{DriverRules, Scenario, nearest};

/// A sweep has at most so many values.
pub const VALUES_MAX: usize = 1000;
/// About how many steps a range has when none is given.
const STEPS: u64 = 8;

/// What a dial's value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A time: `1500ms`, `30s`, `4m`, `2h`.
    Duration,
    /// A whole number.
    Count,
    /// `true` or `false`.
    Flag,
    /// One of these.
    Word(&'static [&'static str]),
    /// `fixed(0,3)`, `exponential(1s,2,10s,6)` or `none`.
    BackOff,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Duration => f.write_str("a time, such as 1500ms, 30s, 4m"),
            Kind::Count => f.write_str("a whole number"),
            Kind::Flag => f.write_str("true or false"),
            Kind::Word(words) => write!(f, "one of {}", words.join(", ")),
            Kind::BackOff => f.write_str(
                "fixed(WAIT,RETRIES), exponential(FIRST,MULTIPLIER,LONGEST,RETRIES) or none, such as fixed(0,3), \
                 exponential(1s,2,10s,6)",
            ),
        }
    }
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Milliseconds.
    Duration(u64),
    /// A number.
    Count(u64),
    /// Yes or no.
    Flag(bool),
    /// A word.
    Word(&'static str),
    /// A back-off, and as it was written.
    BackOff(BackOff, String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Duration(ms) => f.write_str(&shown_ms(*ms)),
            Value::Count(number) => number.fmt(f),
            Value::Flag(flag) => flag.fmt(f),
            Value::Word(word) => f.write_str(word),
            Value::BackOff(_, text) => f.write_str(text),
        }
    }
}

fn shown_ms(ms: u64) -> String {
    match ms {
        0 => "0".to_owned(),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        _ => format!("{ms}ms"),
    }
}

/// One dial.
#[derive(Debug)]
pub struct Dial {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What its values look like.
    pub kind: Kind,
    /// What it is.
    pub doc: &'static str,
    apply: fn(&mut Scenario, &Value) -> Result<(), String>,
}

const fn dial(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    doc: &'static str,
    apply: fn(&mut Scenario, &Value) -> Result<(), String>,
) -> Dial {
    Dial { name, aliases, kind, doc, apply }
}

const STALLS: &[&str] = &[
    "none",
    "engine",
    "interruptible",
    "tickets",
    "lock",
    "sessions",
    "slow",
    "fail-command",
    "lost-reply",
    "reset",
    "step-down",
    "overload",
    "freeze",
];

/// The server versions that the lab server can behave like, oldest first: the names of its profiles.
pub const PROFILE_NAMES: &[&str] = &["4.2", "4.4", "6.0", "7.0", "8.0", "8.2"];

const DRIVERS: &[&str] = &["java-5.4", "java-5.14", "specification", "unbounded"];

/// The number in a value, whatever its unit.
fn number(value: &Value) -> u64 {
    match value {
        Value::Duration(number) | Value::Count(number) => *number,
        Value::Flag(flag) => u64::from(*flag),
        Value::Word(_) | Value::BackOff(..) => 0,
    }
}

fn option(scenario: &mut Scenario, name: &str, value: &Value) -> Result<(), String> {
    let text = match value {
        Value::Word(word) => (*word).to_owned(),
        Value::Flag(flag) => flag.to_string(),
        other => number(other).to_string(),
    };
    let uri = scenario.connection_string().map_err(|error| error.to_string())?;
    scenario.client.uri = uri.with_option(name, &text).map_err(|error| error.to_string())?.to_uri_string();
    Ok(())
}

fn stall(scenario: &mut Scenario, value: &Value) -> Result<(), String> {
    let Value::Word(word) = value else { return Ok(()) };
    let (hold_ms, times) = match scenario.stall {
        Stall::FailCommand { hold_ms, times } => (hold_ms, times),
        Stall::LostReply { times } | Stall::Reset { times } | Stall::Overload { times } => (60_000, times),
        _ => (60_000, 8),
    };
    scenario.stall = match *word {
        "engine" => Stall::Engine,
        "interruptible" => Stall::Interruptible,
        "tickets" => Stall::Tickets,
        "lock" => Stall::Lock,
        "sessions" => Stall::Sessions,
        "slow" => Stall::Slow { takes_ms: 1000, distribution: Distribution::Fixed },
        "fail-command" => Stall::FailCommand { hold_ms, times },
        "lost-reply" => Stall::LostReply { times },
        "reset" => Stall::Reset { times },
        "step-down" => Stall::StepDown,
        "overload" => Stall::Overload { times },
        "freeze" => Stall::Freeze,
        _ => Stall::None,
    };
    if !scenario.stall.is_lifted() {
        (scenario.window.from_ms, scenario.window.for_ms) = (0, None);
    }
    if !matches!(scenario.stall, Stall::FailCommand { .. }) {
        scenario.window.command = None;
    }
    Ok(())
}

/// All dials.
pub const DIALS: &[Dial] = &[
    dial(
        "socketTimeoutMS",
        &["socket-timeout"],
        Kind::Duration,
        "how long the driver waits for a reply",
        |scenario, value| option(scenario, "socketTimeoutMS", value),
    ),
    dial("timeoutMS", &["timeout"], Kind::Duration, "the driver's limit on a whole operation", |scenario, value| {
        option(scenario, "timeoutMS", value)
    }),
    dial(
        "maxTimeMS",
        &["max-time"],
        Kind::Duration,
        "the server's deadline for each write; 0: none",
        |scenario, value| {
            scenario.client.max_time_ms = Some(number(value)).filter(|ms| *ms > 0);
            Ok(())
        },
    ),
    dial("retryWrites", &[], Kind::Flag, "whether the driver resends", |scenario, value| {
        option(scenario, "retryWrites", value)
    }),
    dial("driver", &[], Kind::Word(DRIVERS), "whose rules the driver follows", |scenario, value| {
        scenario.client.driver = match value {
            Value::Word("java-5.14") => DriverRules::Java514,
            Value::Word("specification") => DriverRules::Specification,
            Value::Word("unbounded") => DriverRules::Unbounded,
            _ => DriverRules::Java54,
        };
        Ok(())
    }),
    dial(
        "cancel-after",
        &[],
        Kind::Duration,
        "when the application gives up an execution; 0: never",
        |scenario, value| {
            scenario.client.cancel_after_ms = Some(number(value)).filter(|ms| *ms > 0);
            Ok(())
        },
    ),
    dial(
        "budget-percent",
        &[],
        Kind::Count,
        "retries in a hundred first tries that a client may make; more are not made",
        |scenario, value| {
            let per_second = scenario.retry.budget.map_or(10, |budget| budget.per_second);
            scenario.retry.budget = Some(RetryBudget { percent: number(value), per_second });
            Ok(())
        },
    ),
    dial(
        "budget-per-second",
        &[],
        Kind::Count,
        "retries in a second that a client may make beside them",
        |scenario, value| {
            let percent = scenario.retry.budget.map_or(20, |budget| budget.percent);
            scenario.retry.budget = Some(RetryBudget { percent, per_second: number(value) });
            Ok(())
        },
    ),
    dial(
        "restart-after",
        &[],
        Kind::Duration,
        "when a consumer is started again that crashes after its retries; 0: it makes a dead letter instead",
        |scenario, value| {
            scenario.retry.restart_after_ms = Some(number(value)).filter(|ms| *ms > 0);
            Ok(())
        },
    ),
    dial("maxPoolSize", &[], Kind::Count, "connections of one client", |scenario, value| {
        option(scenario, "maxPoolSize", value)
    }),
    dial("backoff", &["back-off"], Kind::BackOff, "the waits between executions, and how many", |scenario, value| {
        if let Value::BackOff(back_off, _) = value {
            scenario.retry.back_off = back_off.clone();
        }
        Ok(())
    }),
    dial(
        "reset-on-exception-change",
        &[],
        Kind::Flag,
        "whether another class of error starts the back-off over",
        |scenario, value| {
            scenario.retry.reset_on_exception_change = *value == Value::Flag(true);
            Ok(())
        },
    ),
    dial("stall", &[], Kind::Word(STALLS), "what keeps the server from finishing", stall),
    dial("stall-from", &[], Kind::Duration, "when the stall begins", |scenario, value| {
        scenario.window.from_ms = number(value);
        Ok(())
    }),
    dial(
        "stall-for",
        &["D"],
        Kind::Duration,
        "how long the stall lasts; 0: until the application has finished",
        |scenario, value| {
            scenario.window.for_ms = Some(number(value)).filter(|ms| *ms > 0);
            Ok(())
        },
    ),
    dial("slow", &[], Kind::Duration, "a stall in which every write takes this long on average", |scenario, value| {
        let distribution = match scenario.stall {
            Stall::Slow { distribution, .. } => distribution,
            _ => Distribution::Fixed,
        };
        scenario.stall = Stall::Slow { takes_ms: number(value), distribution };
        Ok(())
    }),
    dial("tickets", &["write-tickets"], Kind::Count, "writes that may be in the engine at once", |scenario, value| {
        scenario.server.write_tickets = number(value);
        Ok(())
    }),
    dial(
        "service",
        &[],
        Kind::Duration,
        "how long a write takes in the engine when nothing stalls",
        |scenario, value| {
            scenario.load.service_ms = number(value);
            Ok(())
        },
    ),
    dial(
        "service-distribution",
        &[],
        Kind::Word(&["fixed", "exponential"]),
        "how these times are spread",
        |scenario, value| {
            scenario.load.service =
                if *value == Value::Word("exponential") { Distribution::Exponential } else { Distribution::Fixed };
            Ok(())
        },
    ),
    dial("consumers", &[], Kind::Count, "consumers of the group", |scenario, value| {
        scenario.load.consumers = number(value);
        Ok(())
    }),
    dial(
        "partitions",
        &[],
        Kind::Count,
        "partitions of the topic, where it is not one for each consumer",
        |scenario, value| {
            scenario.load.partitions = Some(number(value));
            Ok(())
        },
    ),
    dial("records", &[], Kind::Count, "records per partition", |scenario, value| {
        scenario.load.records = number(value);
        Ok(())
    }),
    dial(
        "arrival",
        &["arrival-interval"],
        Kind::Duration,
        "the time between two records of a partition; 0: all at the start",
        |scenario, value| {
            scenario.load.arrival_interval_ms = number(value);
            Ok(())
        },
    ),
    dial("consumers-per-client", &[], Kind::Count, "consumers that share a client and its pool", |scenario, value| {
        scenario.load.consumers_per_client = number(value);
        Ok(())
    }),
    dial("until", &[], Kind::Duration, "when the simulation ends though records are left", |scenario, value| {
        scenario.load.until_ms = number(value);
        Ok(())
    }),
    dial("max.poll.records", &["max-poll-records"], Kind::Count, "Kafka's max.poll.records", |scenario, value| {
        scenario.kafka.max_poll_records = number(value);
        Ok(())
    }),
    dial(
        "max.poll.interval.ms",
        &["max-poll-interval"],
        Kind::Duration,
        "Kafka's max.poll.interval.ms",
        |scenario, value| {
            scenario.kafka.max_poll_interval_ms = number(value);
            Ok(())
        },
    ),
    dial(
        "error-handling",
        &[],
        Kind::Word(&["spring", "spring-pausing", "bounded"]),
        "whose rules the consumers follow",
        |scenario, value| {
            scenario.kafka.error_handling = match value {
                Value::Word("spring-pausing") => ErrorHandling::SpringPausing,
                Value::Word("bounded") => ErrorHandling::Bounded,
                _ => ErrorHandling::Spring,
            };
            Ok(())
        },
    ),
    dial(
        "dead-letters",
        &[],
        Kind::Word(&["available", "failing"]),
        "whether dead letters can be published",
        |scenario, value| {
            scenario.kafka.dead_letters =
                if *value == Value::Word("failing") { DeadLetterTopic::Failing } else { DeadLetterTopic::Available };
            Ok(())
        },
    ),
    dial("profile", &[], Kind::Word(PROFILE_NAMES), "the server version to behave like", |scenario, value| {
        if let Value::Word(word) = value {
            scenario.profile = (*word).to_owned();
        }
        Ok(())
    }),
];

impl Dial {
    /// The dial of this name.
    ///
    /// # Errors
    /// When there is none; the message names the nearest and all.
    pub fn find(name: &str) -> Result<&'static Dial, String> {
        let is_called = |dial: &&Dial| {
            dial.name.eq_ignore_ascii_case(name) || dial.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
        };
        DIALS.iter().find(is_called).ok_or_else(|| {
            let names = DIALS.iter().map(|dial| dial.name);
            let nearest = nearest(name, names.clone()).map(|nearest| format!("; did you mean '{nearest}'?"));
            format!(
                "there is nothing called '{name}' to set{}\nThere are: {}",
                nearest.unwrap_or_default(),
                names.collect::<Vec<_>>().join(", ")
            )
        })
    }

    /// Reads one value.
    ///
    /// # Errors
    /// When it is not of this dial's kind; the message says what is.
    pub fn value(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let read = match self.kind {
            Kind::Duration => duration_ms(text).map(Value::Duration),
            Kind::Count => text.parse().ok().map(Value::Count),
            Kind::Flag => text.parse().ok().map(Value::Flag),
            Kind::Word(words) => {
                words.iter().find(|word| word.eq_ignore_ascii_case(text)).map(|word| Value::Word(word))
            }
            Kind::BackOff => back_off(text).map(|back_off| Value::BackOff(back_off, text.to_owned())),
        };
        read.ok_or_else(|| format!("{}: '{text}' is not {}", self.name, self.kind))
    }

    /// Reads a list of values: `a,b,c`, a range `LO..HI` in round steps, or one with a step, `LO..HI/STEP`.
    ///
    /// # Errors
    /// What is not a value, a range the wrong way round, too many values.
    pub fn values(&self, text: &str) -> Result<Vec<Value>, String> {
        let Some((low, rest)) = text.split_once("..") else {
            let values: Vec<_> = split(text).into_iter().map(|part| self.value(part)).collect::<Result<_, _>>()?;
            return self.limited(values);
        };
        if !matches!(self.kind, Kind::Duration | Kind::Count) {
            return Err(format!(
                "{}: '{text}' is a range; it takes a list, such as a,b,c, of {}",
                self.name, self.kind
            ));
        }
        let (high, step) = match rest.split_once('/') {
            Some((high, step)) => (high, Some(number(&self.value(step)?))),
            None => (rest, None),
        };
        let (low, high) = (number(&self.value(low)?), number(&self.value(high)?));
        if low >= high {
            return Err(format!("{}: '{text}' goes from {low} to {high}; the first must be the smaller", self.name));
        }
        let made = |number| if self.kind == Kind::Duration { Value::Duration(number) } else { Value::Count(number) };
        let values: Vec<_> = match step {
            Some(0) => return Err(format!("{}: the step of '{text}' is 0", self.name)),
            Some(step) => {
                (0..).map(|index| low + index * step).take_while(|value| *value <= high).take(VALUES_MAX + 1).collect()
            }
            None => {
                let step = round_step((high - low).div_ceil(STEPS));
                // The first step ends at a round number, and the last value is the end of the range.
                let first = (low / step + 1) * step;
                let between = (0..).map(|index| first + index * step).take_while(|value| *value < high);
                [low].into_iter().chain(between).chain([high]).collect()
            }
        };
        self.limited(values.into_iter().map(made).collect())
    }

    fn limited(&self, values: Vec<Value>) -> Result<Vec<Value>, String> {
        if values.len() > VALUES_MAX {
            return Err(format!("{}: a sweep has at most {VALUES_MAX} values", self.name));
        }
        Ok(values)
    }

    /// Sets it.
    ///
    /// # Errors
    /// When the scenario cannot have it.
    pub fn set(&self, scenario: &mut Scenario, value: &Value) -> Result<(), String> {
        (self.apply)(scenario, value).map_err(|error| format!("{}: {error}", self.name))
    }
}

/// The reference page.
pub fn markdown() -> String {
    let mut text = "# What can be set and swept\n\n`backfire simulate --set NAME=VALUE`, `--sweep NAME=VALUES`, `--threshold \
                    NAME=LO..HI`.\nA list of values is `a,b,c`; a range is `LO..HI`, in about eight round steps, or `LO..HI/STEP`.\n\n\
                    | name | values | what it is |\n| --- | --- | --- |\n"
        .to_owned();
    for dial in DIALS {
        let aliases: String = dial.aliases.iter().map(|alias| format!(", `{alias}`")).collect();
        text.push_str(&format!("| `{}`{aliases} | {} | {} |\n", dial.name, dial.kind, dial.doc));
    }
    text
}

/// The least of 1, 2, 5, 10, 20, 50, … that is not below `step`.
fn round_step(step: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        if let Some(round) = [1, 2, 5].map(|digit| unit.saturating_mul(digit)).into_iter().find(|round| *round >= step)
        {
            return round;
        }
        unit = unit.saturating_mul(10);
    }
}

/// Splits at commas that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// `240s`, `4m`, `1500ms`, `2h`, `0`; a bare number is milliseconds. `None`: it is no time.
pub fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn back_off(text: &str) -> Option<BackOff> {
    if text == "none" {
        return Some(BackOff::None);
    }
    let (name, arguments) = text.strip_suffix(')')?.split_once('(')?;
    let arguments: Vec<_> = arguments.split(',').map(str::trim).collect();
    let ms = |text: &str| duration_ms(text).and_then(|ms| i64::try_from(ms).ok());
    match (name.trim(), arguments.as_slice()) {
        ("fixed", [wait]) => Some(BackOff::Fixed(Fixed { interval_ms: ms(wait)?, max_retries: None })),
        ("fixed", [wait, retries]) => Some(BackOff::fixed(ms(wait)?, retries.parse().ok()?)),
        ("exponential", [first, multiplier, longest]) => Some(BackOff::Exponential(Exponential {
            initial_interval_ms: ms(first)?,
            multiplier: multiplier.parse().ok()?,
            max_interval_ms: ms(longest)?,
            ..Exponential::default()
        })),
        ("exponential", [first, multiplier, longest, retries]) => {
            Some(BackOff::ExponentialMaxRetries(ExponentialMaxRetries {
                max_retries: retries.parse().ok()?,
                initial_interval_ms: ms(first)?,
                multiplier: multiplier.parse().ok()?,
                max_interval_ms: ms(longest)?,
                jitter_ms: 0,
            }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str, text: &str) -> Result<String, String> {
        let values = Dial::find(name)?.values(text)?;
        Ok(values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn values_are_lists_and_ranges() {
        for (name, text, expected) in [
            ("socketTimeoutMS", "5s..60s/5s", "5s 10s 15s 20s 25s 30s 35s 40s 45s 50s 55s 1m"),
            ("socket-timeout", "1500, 2s", "1500ms 2s"),
            ("consumers", "1..8", "1 2 3 4 5 6 7 8"),
            ("CONSUMERS", "1..3", "1 2 3"),
            ("consumers", "10..80", "10 20 30 40 50 60 70 80"),
            ("socketTimeoutMS", "5s..60s", "5s 10s 20s 30s 40s 50s 1m"),
            ("stall-for", "100ms..103ms", "100ms 101ms 102ms 103ms"),
            ("backoff", "fixed(0,3),exponential(1s,2,10s,6),none", "fixed(0,3) exponential(1s,2,10s,6) none"),
            ("retryWrites", "true,false", "true false"),
            ("stall", "engine,tickets", "engine tickets"),
        ] {
            assert_eq!(values(name, text).as_deref(), Ok(expected), "{name}={text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        for (name, text, expected) in [
            (
                "socketTimeoutMs2",
                "1",
                "there is nothing called 'socketTimeoutMs2' to set; did you mean 'socketTimeoutMS'?",
            ),
            ("socketTimeoutMS", "5x", "socketTimeoutMS: '5x' is not a time, such as 1500ms, 30s, 4m"),
            ("consumers", "9..3", "consumers: '9..3' goes from 9 to 3; the first must be the smaller"),
            ("consumers", "1..9/0", "consumers: the step of '1..9/0' is 0"),
            ("consumers", "1..9000000/1", "consumers: a sweep has at most 1000 values"),
            (
                "retryWrites",
                "true..false",
                "retryWrites: 'true..false' is a range; it takes a list, such as a,b,c, of true or false",
            ),
            ("stall", "engin", "stall: 'engin' is not one of none, engine, interruptible"),
            ("backoff", "fixed(1,2,3)", "backoff: 'fixed(1,2,3)' is not fixed(WAIT,RETRIES)"),
        ] {
            let error = values(name, text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn every_dial_can_be_set_on_every_built_in_scenario() {
        for (name, _) in crate::scenario::BUILT_IN {
            for dial in DIALS {
                let text = match dial.kind {
                    Kind::Duration => "7s",
                    Kind::Count => "9",
                    Kind::Flag => "true",
                    Kind::Word(words) => words[words.len() - 1],
                    Kind::BackOff => "fixed(1s,2)",
                };
                let mut scenario = Scenario::built_in(name).expect("built in");
                let before = scenario.clone();
                let value = dial.value(text).expect("a value");
                dial.set(&mut scenario, &value).expect("it can be set");
                let once = scenario.clone();
                dial.set(&mut scenario, &value).expect("it can be set again");
                assert_eq!(scenario, once, "{name}: {} twice is once", dial.name);
                let other = match dial.kind {
                    Kind::Flag => "false",
                    Kind::Word(words) => words[0],
                    _ => continue,
                };
                dial.set(&mut scenario, &dial.value(other).expect("a value")).expect("it can be set");
                assert!(scenario != once || once != before, "{name}: {} has an effect", dial.name);
            }
        }
    }
}
