//! `waitForFailPoint`.

use std::sync::Arc;
use std::time::Duration;

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::error::CommandError;
use crate::failpoints::FailPoint;
use crate::value::View;

/// How often it looks (facts/server.md 4.3).
const POLL: Duration = Duration::from_millis(100);

/// `{waitForFailPoint: name, timesEntered: long, maxTimeMS: long}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["waitForFailPoint"],
    doc: "waits until a fail point has been entered a number of times since the server started",
    parse: |request, shared| {
        let name = match request.get("waitForFailPoint") {
            Some(View::String(name)) => name,
            Some(other) => return Err(idl::wrong_type("waitForFailPoint", "waitForFailPoint", other, "string")),
            None => "",
        };
        let number = |field: &str| match request.get(field) {
            None => Err(idl::missing("waitForFailPoint", field)),
            Some(value) => {
                idl::whole_number(value).ok_or_else(|| idl::wrong_type("waitForFailPoint", field, value, "long"))
            }
        };
        let times = number("timesEntered")?;
        number("maxTimeMS")?;
        let point = shared.fail_points.find(name).ok_or_else(|| CommandError::new(266, format!("{name} not found")))?;
        Ok(Box::new(WaitForFailPoint { point: Arc::clone(point), times: times.max(0) as u64 }))
    },
    ..CommandSpec::ADMIN
};

struct WaitForFailPoint {
    point: Arc<FailPoint>,
    times: u64,
}

impl Invocation for WaitForFailPoint {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            while self.point.times_entered() < self.times {
                run.op.wait(tokio::time::sleep(POLL)).await?;
            }
            Ok(Reply::empty())
        })
    }
}
