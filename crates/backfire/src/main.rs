//! `backfire`: how many copies of one write is your database running?
//!
//! The command line is the only room that prints, parses arguments and sets exit codes. One file per command in
//! `commands/`.

mod cli;
mod commands;
mod events;
mod exit;
mod metrics;
mod out;
mod progress;
mod scenario;

use std::process::ExitCode;

use clap::Parser;
use tracing::level_filters::LevelFilter;

use cli::{Cli, Command};

/// Simulations of a thousand clients make and drop many small things; this allocator is faster at it than the system's.
/// Without huge pages (the feature `no_thp`): the kernel clears each of them when it is touched, which was a third of the time
/// of a short check.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = match cli.verbose {
        // A simulation tells of failures in its result: there may be millions.
        0 if matches!(cli.command, Command::Simulate(_)) => LevelFilter::OFF,
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false).init();
    match cli.command {
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Rehearse(arguments) => commands::rehearse::run(&arguments),
        Command::Simulate(arguments) => commands::simulate::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Sink(arguments) => commands::sink::run(&arguments),
    }
    .into()
}
