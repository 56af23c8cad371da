//! `configureFailPoint`.

use bson::{Bson, Document, doc};

use super::{CommandSpec, Invocation, Reply, Run, Running};
use crate::error::CommandError;
use crate::failpoints::Mode;
use crate::value::View;

/// `{configureFailPoint: name, mode: …, data: {…}}` (facts/server.md 4.3).
pub const SPEC: CommandSpec = CommandSpec {
    names: &["configureFailPoint"],
    doc: "turns a fail point on or off; waits until nobody is held by it",
    test_only: true,
    needs_auth: true,
    parse: |request, _| {
        let name = match request.get("configureFailPoint") {
            Some(View::String(name)) => name.to_owned(),
            _ => String::new(),
        };
        let own = |field: &str| request.get(field).map(View::to_bson).transpose();
        Ok(Box::new(ConfigureFailPoint { name, mode: own("mode")?, data: own("data")? }))
    },
    ..CommandSpec::ADMIN
};

struct ConfigureFailPoint {
    name: String,
    mode: Option<Bson>,
    data: Option<Bson>,
}

impl Invocation for ConfigureFailPoint {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let point = run
                .shared()
                .fail_points
                .find(&self.name)
                .ok_or_else(|| CommandError::new(266, format!("{} not found", self.name)))?;
            let mode = Mode::parse(self.mode.as_ref())?;
            let data = match self.data {
                None => Document::new(),
                Some(Bson::Document(data)) => data,
                Some(_) => return Err(CommandError::type_mismatch("the 'data' option must be a JSON object").into()),
            };
            let count = run.op.wait_uninterruptibly(point.set(mode, data)).await;
            Ok(Reply::from_document(
                &doc! { "count": i32::try_from(count).map_or(Bson::Int64(count as i64), Bson::Int32) },
            )?)
        })
    }
}
