//! `setParameter`.

use std::sync::Arc;

use bson::{Bson, doc};

use super::{CommandSpec, Invocation, Reply, Run, Running, immediate};
use crate::auth::{Action, Permission};
use crate::locks::TicketPool;
use crate::params::{Param, ParamRow, Params};

/// `{setParameter: 1, name: value}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["setParameter"],
    doc: "changes a server parameter",
    permission: Permission::Cluster(&[Action::SetParameter]),
    parse: |request, _| {
        let own = request
            .document()
            .iter()
            .skip(1)
            .filter_map(Result::ok)
            .find(|(name, _)| !super::idl::is_generic(name.as_str().as_bytes()));
        let Some((name, value)) = own else {
            return immediate(|_| Ok(Reply::bare_failure("no option found to set, use help:true to see options ")));
        };
        let name = name.as_str().to_owned();
        match Params::find(&name) {
            Some(row) => Ok(Box::new(SetParameter { row, value: crate::value::View::from(value).to_bson()? })),
            None => immediate(move |_| {
                let text = format!("attempted to set unrecognized parameter [{name}], use help:true to see options ");
                Ok(Reply::bare_failure(text))
            }),
        }
    },
    ..CommandSpec::ADMIN
};

struct SetParameter {
    row: &'static ParamRow,
    value: Bson,
}

impl Invocation for SetParameter {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            let was = shared.params.set(self.row, &self.value)?;
            let pool: Option<&Arc<TicketPool>> = match self.row.id {
                Param::WriteTickets => Some(&shared.write_tickets),
                Param::ReadTickets => Some(&shared.read_tickets),
                _ => None,
            };
            if let Some(pool) = pool {
                // Shrinking waits for tickets to come back, whatever happens meanwhile (facts/server.md 7.1).
                run.op.wait_uninterruptibly(pool.resize(shared.params.get(self.row.id))).await;
            }
            Ok(Reply::from_document(&doc! { "was": was })?)
        })
    }
}
