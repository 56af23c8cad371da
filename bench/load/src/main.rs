//! The load generator of `bench/peers`: starts the lab server and its peers, loads them in turn, prints ratios.
//!
//! A server's throughput on a machine that it shares with its load is mostly the load's. Hence three figures, all in
//! one run: through the official driver, the server's own processor time per operation, and raw frames against a bare
//! echo.

mod args;
mod driver;
mod growth;
mod peer;
mod raw;
mod stats;
mod wire;

use args::Args;

/// Bars that were missed, and what was printed about the others.
#[derive(Default)]
pub struct Bars {
    missed: Vec<String>,
}

impl Bars {
    /// One bar: what was measured, beside what is wanted.
    pub fn row(&mut self, what: &str, measured: String, wanted: &str, met: bool) {
        println!("  {what:<66} {measured:>10}   wanted {wanted:<8} {}", if met { "met" } else { "MISSED" });
        if !met {
            self.missed.push(what.to_owned());
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, port] = &arguments[..]
        && mode == "echo"
    {
        return raw::echo(port);
    }
    let args = match Args::parse(arguments) {
        Ok(args) => args,
        Err(text) => {
            eprintln!("backfire-load: {text}");
            std::process::exit(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut bars = Bars::default();
    runtime.block_on(async {
        if args.does("driver") {
            driver::measure(&args, &mut bars).await;
        }
        if args.does("raw") {
            raw::measure(&args, &mut bars).await;
        }
        if args.does("growth") {
            growth::measure(&args, &mut bars).await;
        }
    });
    if bars.missed.is_empty() {
        println!("\nevery bar met");
    } else {
        println!("\n{} missed: {}", bars.missed.len(), bars.missed.join("; "));
        std::process::exit(1);
    }
}
