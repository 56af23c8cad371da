//! `backfire`: how many copies of one write is your database running?
//!
//! The command line is the only room that prints, parses arguments and sets exit codes. One file per command in
//! `commands/`.

mod cli;
mod commands;
mod exit;
mod metrics;
mod out;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = match cli.verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false).init();
    match cli.command {
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Rehearse(arguments) => commands::rehearse::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Sink(arguments) => commands::sink::run(&arguments),
    }
    .into()
}
