//! The arguments of every command.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use backfire_model::connection_string::Host;
use backfire_model::dial::PROFILE_NAMES;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// How many copies of one write is your database running?
///
/// Exit codes: 0 as predicted, nothing found, or done; 1 a difference or a finding; 2 could not run.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Log more to stderr (-v: what happens, -vv: details).
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read a service's settings, predict how many sends and copies one record can cause, and say what to change.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Run one write against a stalled server, count what arrived and what ran, and compare with the prediction.
    #[command(after_help = REHEARSE_EXAMPLES)]
    Rehearse(Rehearse),
    /// Run many consumers and records on a clock that does not wait: what a stall does to a whole service.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Simulate),
    /// Render a recorded event stream: a page to send to colleagues, a chart, a trace, or numbers.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(Report),
    /// Run the lab server alone, for any MongoDB client.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Write the records of a Kafka topic into a collection: at least once, in bulks, in the order of their partition.
    ///
    /// Exit codes: 0 everything is written, 1 records became dead letters, 2 could not run, or had to stop.
    #[command(after_help = SINK_EXAMPLES)]
    Sink(Sink),
}

const CHECK_EXAMPLES: &str = "\
Examples:
  backfire check                             the service in this folder, or all of them
  backfire check --uri 'mongodb://db/?socketTimeoutMS=30000'
  backfire check . --profile prod --set MONGO_URI=mongodb://db/
  backfire check --explain BF002             what a finding means
  backfire check . --format sarif > backfire.sarif
  backfire check --scenario > mine.toml; backfire simulate --scenario-file mine.toml
  backfire check . --write-baseline known.json; backfire check . --baseline known.json";

const REHEARSE_EXAMPLES: &str = "\
Examples:
  backfire rehearse                                  the experiment: 8 sends, 4 copies
  backfire rehearse store-inventory --scale 0.1      the worked timeline in 24 seconds
  backfire rehearse --list                           what is built in
  backfire rehearse --print store-inventory > my.toml; backfire rehearse --scenario-file my.toml
  backfire rehearse --app 'java -jar service.jar'    measure your own service: it finds BACKFIRE_URI
                                                     in its environment
  backfire rehearse --with kafka --brokers HOST:PORT     the record comes through a real broker";

const SIMULATE_EXAMPLES: &str = "\
Examples:
  backfire simulate                                  the worked timeline, in some milliseconds
  backfire simulate store-inventory --consumers 100 --records 50 --set stall-for=240s
  backfire simulate --sweep socketTimeoutMS=5s..60s --sweep 'backoff=fixed(0,3),exponential(1s,2,30s,3)'
  backfire simulate retry-storm                      retries that outlive their stall
  backfire simulate retry-storm --threshold consumers=100..1000
  backfire simulate --trace | less                   one line per event
  backfire simulate --dials                          what can be set and swept";

const REPORT_EXAMPLES: &str = "\
Examples:
  backfire rehearse store-inventory --report report.html     a rehearsal and its page in one step
  backfire rehearse --events run.jsonl --format json > run.json
  backfire report run.jsonl -o report.html --prediction run.json
  backfire check . --format json > check.json; backfire report run.jsonl -o report.html --findings check.json
  backfire report run.jsonl -o run.perfetto.json             open it at https://ui.perfetto.dev
  zstd -dc run.jsonl.zst | backfire report - --format svg > run.svg";

const SERVE_EXAMPLES: &str = "\
Examples:
  backfire serve                      on 127.0.0.1:27017, behaving like 7.0
  backfire serve --port 0             on a free port; the first line on stdout is the connection string
  backfire serve --bind 0.0.0.0 --allow-remote --advertise lab.example.com     for other machines
  mongosh 'mongodb://127.0.0.1:27017/?replicaSet=rs0'    in another terminal";

const SINK_EXAMPLES: &str = "\
Examples:
  backfire sink --from orders --to store.orders      generated records into a lab server: try it out
  backfire sink --from orders --to store.orders --brokers kafka:9092 --uri mongodb://db/
  backfire sink ... --set write.id=key               one document per key; docs/reference/sink-options.md
                                                     has all options
  backfire sink ... --config sink.toml --metrics 127.0.0.1:9100";

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Folders and files of services: Spring configuration, pom.xml and Gradle files, Java and Kotlin, Kafka Connect sinks,
    /// package.json, pyproject.toml, go.mod, backfire.toml. Without any, and without --uri: this folder.
    pub paths: Vec<PathBuf>,
    /// Look at this connection string, in the place of the one that is found.
    #[arg(long, value_name = "URI")]
    pub uri: Option<String>,
    /// The value of a property, or of a name in a placeholder; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Let environment variables fill placeholders and set properties, as they do for the service.
    #[arg(long)]
    pub env: bool,
    /// An active Spring profile; may be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub profile: Vec<String>,
    /// How long the server stands still (default: longer than all retries).
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    pub stall: Option<u64>,
    /// Also look at test sources.
    #[arg(long)]
    pub with_tests: bool,
    /// How to show the result on stdout.
    #[arg(long, value_enum, default_value_t)]
    pub format: CheckFormat,
    /// The least level of a finding that makes the exit code 1.
    #[arg(long, value_enum, default_value_t, value_name = "LEVEL")]
    pub fail_on: FailOn,
    /// Findings that are known and not reported again.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write the present findings down as known.
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    pub write_baseline: Option<PathBuf>,
    /// Print the scenario of a listener, to be rehearsed or simulated: `backfire simulate --scenario-file FILE`. Where there
    /// are several listeners, its name says which.
    #[arg(long, value_name = "LISTENER", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["write_baseline", "baseline", "format"])]
    pub scenario: Option<String>,
    /// Print the page of a rule.
    #[arg(long, value_name = "RULE", conflicts_with_all = ["paths", "uri", "rules"])]
    pub explain: Option<String>,
    /// List all rules, as text or JSON.
    #[arg(long, conflicts_with_all = ["paths", "uri"])]
    pub rules: bool,
}

/// How to show what a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CheckFormat {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Annotations of a GitHub workflow.
    Github,
}

/// From which level on a finding makes the check fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FailOn {
    /// Every finding.
    Note,
    /// Warnings and errors.
    #[default]
    Warning,
    /// Errors only.
    Error,
}

/// Arguments of `rehearse`.
#[derive(Debug, Args)]
pub struct Rehearse {
    /// A built-in scenario.
    #[arg(default_value = "retry-lab", conflicts_with_all = ["scenario_file", "list", "print"])]
    pub scenario: String,
    /// A scenario of your own.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "print"])]
    pub scenario_file: Option<PathBuf>,
    /// List the built-in scenarios.
    #[arg(long, conflicts_with = "print")]
    pub list: bool,
    /// Print the file of a built-in scenario, to start from. It is TOML whatever --format says.
    #[arg(long, value_name = "SCENARIO", conflicts_with = "format")]
    pub print: Option<String>,
    /// Multiply every time of the scenario by this (0.1: ten times faster).
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    pub scale: f64,
    /// How to show the result on stdout.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Keep the event stream: one JSON object per line, written as it happens. `-` is stdout; the result then goes to stderr.
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Also render the run into this file. The name's ending says how: .html, .svg, .json, .perfetto.json or .otlp.json.
    #[arg(long, value_name = "FILE", value_parser = report_path)]
    pub report: Option<PathBuf>,
    /// Run this shell command in the place of backfire's own client, with BACKFIRE_URI in its environment, and count what
    /// it does. Its output goes to stderr.
    #[arg(long, value_name = "COMMAND", value_parser = shell_command)]
    pub app: Option<String>,
    /// With --app: count and stall the writes to this collection only (default: every collection).
    #[arg(long, value_name = "DB.COLLECTION", requires = "app", value_parser = namespace)]
    pub namespace: Option<String>,
    /// With --app: end the command after this many seconds.
    #[arg(long, value_name = "SECONDS", requires = "app")]
    pub app_timeout: Option<u64>,
    /// Let the record come through a real broker (--brokers): it is produced, consumed, tried again with the scenario's
    /// back-off, and made a dead letter, in topics that are made for it and deleted at the end.
    #[arg(long, value_enum, conflicts_with_all = ["app", "list", "print"])]
    pub with: Option<With>,
    /// With --with kafka: the brokers, separated by commas.
    #[arg(long, value_name = "HOST:PORT", requires = "with")]
    pub brokers: Option<String>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// What a rehearsal's record comes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum With {
    /// A topic of a Kafka broker.
    Kafka,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub struct Simulate {
    /// A built-in scenario.
    #[arg(default_value = "store-inventory", conflicts_with_all = ["scenario_file", "dials"])]
    pub scenario: String,
    /// A scenario of your own.
    #[arg(long, value_name = "FILE", conflicts_with = "dials")]
    pub scenario_file: Option<PathBuf>,
    /// Consumers of the group, each with a partition of its own unless the scenario says otherwise.
    #[arg(long, value_name = "N")]
    pub consumers: Option<u64>,
    /// Records per partition.
    #[arg(long, value_name = "N")]
    pub records: Option<u64>,
    /// Seed of everything random: the same seed gives the same bytes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Set something of the scenario; may be repeated. `--dials` lists what there is.
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Simulate every value of a list (a,b,c) or range (LO..HI, LO..HI/STEP), and every combination where it is repeated.
    #[arg(long, value_name = "NAME=VALUES", value_parser = key_value, conflicts_with_all = ["trace", "events", "threshold"])]
    pub sweep: Vec<(String, String)>,
    /// Search between two values for the place at which retries begin to outlive their stall.
    #[arg(long, value_name = "NAME=LO..HI", value_parser = key_value, conflicts_with_all = ["trace", "events"])]
    pub threshold: Option<(String, String)>,
    /// Print one line per event, and then the result.
    #[arg(long, conflicts_with = "format")]
    pub trace: bool,
    /// How to show the result on stdout.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Keep the event stream: one JSON object per line.
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Write a report of it; the ending of the name says what kind: .html, .svg, .json, .perfetto.json, .otlp.json.
    #[arg(long, value_name = "FILE", value_parser = report_path, conflicts_with_all = ["sweep", "threshold"])]
    pub report: Option<PathBuf>,
    /// List what can be set and swept.
    #[arg(long)]
    pub dials: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The event stream, one JSON object per line, as --events keeps it; `-` is stdin.
    #[arg(value_name = "EVENTS")]
    pub events: PathBuf,
    /// Write it here (default, and `-`: stdout).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What to make of it (default: what the ending of the output's name says, else html).
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Show this prediction beside what was measured: the JSON of `rehearse --format json`, or of `check --format json`.
    #[arg(long, value_name = "FILE")]
    pub prediction: Option<PathBuf>,
    /// Show these settings and findings as the cause: the JSON of `check --format json`.
    #[arg(long, value_name = "FILE")]
    pub findings: Option<PathBuf>,
    /// Count the writes to this collection only (default: every collection).
    #[arg(long, value_name = "DB.COLLECTION", value_parser = namespace)]
    pub namespace: Option<String>,
    /// How many writes the server lets into its engine at once; drawn beside the copies.
    #[arg(long, value_name = "N")]
    pub tickets: Option<u64>,
    /// What to call the recording.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Pass over lines that are no events, and say how many.
    #[arg(long)]
    pub skip_bad_lines: bool,
}

/// What to make of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A page that needs nothing else.
    Html,
    /// The chart alone.
    Svg,
    /// The numbers of the page.
    Json,
    /// A trace for <https://ui.perfetto.dev>.
    Perfetto,
    /// OpenTelemetry spans, as OTLP JSON.
    Otlp,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// The port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 27017)]
    pub port: u16,
    /// The server version to behave like.
    #[arg(long, default_value = "7.0", value_parser = PossibleValuesParser::new(PROFILE_NAMES))]
    pub profile: String,
    /// Allow an address that other machines can reach, although nobody has to log in.
    #[arg(long)]
    pub allow_remote: bool,
    /// The host name that clients are told to connect to, where it is not the address itself; with a port, where it is not
    /// the port itself.
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub advertise: Option<Host>,
    /// The replica set's name.
    #[arg(long, value_name = "NAME", default_value = "rs0", conflicts_with = "standalone")]
    pub repl_set: String,
    /// Be no replica-set member: drivers then send no txnNumber.
    #[arg(long)]
    pub standalone: bool,
    /// Leave out configureFailPoint, as a server without enableTestCommands does.
    #[arg(long)]
    pub no_test_commands: bool,
    /// How many connections to take.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = connections)]
    pub max_connections: usize,
    /// Close a connection whose client does not finish a message, or does not take a reply, for so long.
    #[arg(long = "client-timeout", value_name = "TIME", default_value = "5m", value_parser = duration_ms)]
    pub client_timeout_ms: u64,
    /// Let clients do nothing before they log in. The first user has the role root; its password comes from
    /// --password-file or the environment variable BACKFIRE_PASSWORD.
    #[arg(long)]
    pub auth: bool,
    /// The first user's name, in the database admin.
    #[arg(long, value_name = "NAME", default_value = "root", requires = "auth")]
    pub user: String,
    /// A file with the first user's password; the end of the line is no part of it.
    #[arg(long, value_name = "FILE", requires = "auth")]
    pub password_file: Option<PathBuf>,
    /// Encrypt connections: a file with the server's certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, as PEM; may be the same file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Ask clients for a certificate by one of the authorities in this file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
}

/// Arguments of `sink`.
#[derive(Debug, Args)]
pub struct Sink {
    /// The topic to read.
    #[arg(long, value_name = "TOPIC")]
    pub from: String,
    /// The collection to write to.
    #[arg(long, value_name = "DB.COLLECTION", value_parser = namespace)]
    pub to: String,
    /// Kafka brokers, separated by commas. Without them: a topic in memory with generated records.
    #[arg(long, value_name = "HOST:PORT")]
    pub brokers: Option<String>,
    /// The MongoDB server. Without it: a lab server that ends with this command.
    #[arg(long, value_name = "URI")]
    pub uri: Option<String>,
    /// A file with options.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An option, such as write.id=key; may be repeated, and wins over the file.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// End when this many records are done (default: go on until stopped; generated records: all of them).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records: Option<u64>,
    /// Serve what is measured to Prometheus at this address; port 0 takes a free one, and stderr says which.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// How to show the result on stdout.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// How to show a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(scale),
        Ok(_) => Err("must be from 0.001 to 1000".to_owned()),
        Err(_) => Err("must be a number, such as 0.1".to_owned()),
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be of the form KEY=VALUE".to_owned()),
    }
}

/// `240s`, `4m`, `1500ms`, `2h`, as milliseconds.
fn duration_ms(text: &str) -> Result<u64, String> {
    let has_unit = text.ends_with(|letter: char| letter.is_ascii_alphabetic());
    backfire_model::dial::duration_ms(text)
        .filter(|_| has_unit)
        .ok_or_else(|| "must be a whole number with a unit: 1500ms, 240s, 4m or 2h".to_owned())
}

fn shell_command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("there is no command in it".to_owned()) } else { Ok(text.to_owned()) }
}

fn host(text: &str) -> Result<Host, String> {
    text.parse::<Host>().map_err(|error| error.to_string())
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more: a server that takes none refuses everybody".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number, 1 or more".to_owned()),
    }
}

fn report_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    backfire_report::Format::of_path(&path).map(|_| path)
}

fn namespace(text: &str) -> Result<String, String> {
    match backfire_model::Namespace::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("must be of the form 'database.collection'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, expected) in
            [("1500ms", Some(1500)), ("240s", Some(240_000)), ("4m", Some(240_000)), ("2h", Some(7_200_000))]
        {
            assert_eq!(duration_ms(text).ok(), expected);
        }
        for text in ["", "5", "s", "-5s", "5x", "99999999999999999999s", "18446744073709551615h"] {
            assert!(duration_ms(text).is_err(), "{text}");
        }
    }

    /// The help of every command, as the page shows it.
    fn reference() -> String {
        let mut text = "# Command line\n".to_owned();
        let mut root = Cli::command().term_width(100);
        root.build();
        let commands = root.get_subcommands().filter(|command| command.get_name() != "help");
        for command in commands {
            let help = command.clone().render_long_help().to_string();
            let help: Vec<_> = help.lines().map(str::trim_end).collect();
            text.push_str(&format!(
                "\n## backfire {}\n\n```text\n{}\n```\n",
                command.get_name(),
                help.join("\n").trim_end()
            ));
        }
        text
    }

    #[test]
    fn the_reference_is_in_step() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/command-line.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, reference()).expect("the page can be written");
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == reference(), "docs/reference/command-line.md is old; run with UPDATE_DOCS=1");
    }
}
