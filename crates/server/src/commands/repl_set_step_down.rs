//! `replSetStepDown`.

use std::time::Duration;

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::error::CommandError;
use crate::locks::{Level, Mode};
use crate::value::View;

/// How long a step-down waits for a secondary when none is named (10 s).
const CATCH_UP_DEFAULT_S: i64 = 10;

/// `{replSetStepDown: seconds, secondaryCatchUpPeriodSecs: seconds, force: bool}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["replSetStepDown"],
    doc: "makes this node stop being primary; being the only one, it is elected again when the time is over",
    permission: Permission::Cluster(&[Action::ReplSetStateChange]),
    parse: |request, _| {
        let seconds = |field: &str| request.get(field).and_then(idl::whole_number);
        let period = seconds("replSetStepDown").unwrap_or(60).clamp(0, 1_000_000_000);
        if period == 0 {
            return Err(CommandError::bad_value("stepdown period must be a positive integer"));
        }
        let catch_up = seconds("secondaryCatchUpPeriodSecs").unwrap_or(CATCH_UP_DEFAULT_S).clamp(0, period);
        let force = request.get("force").is_some_and(View::is_true);
        Ok(Box::new(StepDown {
            period: Duration::from_secs(period as u64),
            catch_up: Duration::from_secs(catch_up as u64),
            force,
        }))
    },
    ..CommandSpec::ADMIN
};

struct StepDown {
    period: Duration,
    catch_up: Duration,
    force: bool,
}

impl Invocation for StepDown {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            if !shared.topology.is_replica_set() {
                return Err(CommandError::new(76, "not running with --replSet").into());
            }
            if !shared.topology.is_primary() {
                return Err(CommandError::new(10107, "not primary so can't step down").into());
            }
            if !self.force {
                // There is no other member that could catch up.
                run.op.wait(tokio::time::sleep(self.catch_up)).await?;
                let op_time = shared.topology.last_op_time();
                return Err(CommandError::new(
                    262,
                    format!(
                        "No electable secondaries caught up as of {}. Please use the replSetStepDown command with the \
                         argument {{force: true}} to force node to step down.",
                        op_time.time
                    ),
                )
                .into());
            }
            shared.topology.step_down(self.period);
            // Whoever is not primary keeps no transaction open.
            shared.sessions.abort_open(|_, _| true);
            // Only operations that hold the global lock for writing are ended (facts/server.md 7.2). One that is held
            // elsewhere meets "not primary" when it goes on.
            for op in shared.ops.all() {
                let global = op.view().locks.held_at(Level::Global);
                let writes = global.is_some_and(|mode| mode != Mode::IntentShared && mode != Mode::Shared);
                if op.id != run.op.id && writes {
                    op.kill(11602);
                }
            }
            Ok(Reply::empty())
        })
    }
}
