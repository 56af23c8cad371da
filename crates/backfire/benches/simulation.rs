//! How fast `backfire simulate` is: `cargo bench -p backfire --bench simulation`.
//!
//! Runs the command as a process of its own, and, where python3 has simpy, `bench/store_inventory.py` beside it in the same run.
//! Prints each figure beside its bar and fails when one of the command's own is missed. `SIMPY_PYTHON` names another python.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The worked timeline, from the start of the process to its end.
const SEED_MAX: Duration = Duration::from_millis(20);
/// A thousand consumers with a thousand records each, and a stall of 241 s.
const LARGE_MAX: Duration = Duration::from_secs(60);
/// Memory of the same.
const LARGE_MAX_BYTES: u64 = 2 << 30;

/// Runs a command to its end: how long it took, and the most memory of all children so far.
fn run(command: &mut Command) -> Option<(Duration, u64)> {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    let took = began.elapsed();
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).ok()?;
    status.success().then(|| (took, usage.max_rss().unsigned_abs() * 1024))
}

/// The shortest of several runs: what the machine does beside makes a run longer, never shorter.
fn shortest(times: usize, mut command: impl FnMut() -> Command) -> Option<(Duration, u64)> {
    (0..times).filter_map(|_| run(&mut command())).min_by_key(|(took, _)| *took)
}

fn simulate(consumers: &str, records: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backfire"));
    command.args(["simulate", "store-inventory", "--quiet", "--consumers", consumers, "--records", records]);
    command.args(["--set", "stall-for=241s"]);
    command
}

fn model(consumers: &str, records: &str) -> Command {
    let python = std::env::var("SIMPY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/store_inventory.py")).args([consumers, records]);
    command
}

fn main() {
    let mut missed = false;
    let mut bar = |name: &str, value: String, bar: String, met: bool| {
        println!("{name:<58} {value:>12}  bar {bar:>9}  {}", if met { "met" } else { "MISSED" });
        missed |= !met;
    };
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let seed = shortest(20, || simulate("1", "1")).expect("it runs").0;
    bar("the worked timeline (240 s), the whole process", ms(seed), ms(SEED_MAX), seed < SEED_MAX);
    let middle = shortest(2, || simulate("1000", "20")).expect("it runs").0;
    let (large, bytes) = run(&mut simulate("1000", "1000")).expect("it runs");
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    bar("1,000 consumers x 1,000 records, a stall of 241 s", seconds(large), seconds(LARGE_MAX), large < LARGE_MAX);
    bar("its memory", mib(bytes), mib(LARGE_MAX_BYTES), bytes < LARGE_MAX_BYTES);
    let Some((model_seed, _)) = shortest(20, || model("1", "1")) else {
        println!("the SimPy model was not run: python3 has no simpy here");
        std::process::exit(i32::from(missed));
    };
    let (model_middle, _) = shortest(2, || model("1000", "20")).expect("it runs");
    let ratio = |one: Duration, other: Duration| format!("{:.1}x", one.as_secs_f64() / other.as_secs_f64());
    println!("the SimPy model of the worked timeline takes {}, {} of ours", ms(model_seed), ratio(model_seed, seed));
    println!(
        "the SimPy model of 1,000 x 20 takes {}, {} of ours ({}), which runs a real server and a real driver",
        seconds(model_middle),
        ratio(model_middle, middle),
        seconds(middle)
    );
    std::process::exit(i32::from(missed));
}
