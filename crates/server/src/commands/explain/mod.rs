//! `explain`: how a command would be run.

mod plan;
mod query;

use std::sync::Arc;

use backfire_model::Namespace;
use bson::{Bson, Document, doc};

use super::{ALL, CommandSpec, Invocation, PrimaryRule, Reply, Run, Running, idl};
use crate::auth::{Needs, Permission};
use crate::error::{CommandError, Result, fail};
use crate::net::Request;
use crate::pipeline::Failed;
use crate::plan::{Hint, Scan};
use crate::query::{Matcher, Sort};
use crate::server::Shared;
use crate::stages::locks::{Access, enter};
use crate::stats::number;
use crate::value::View;
use crate::value::view::to_raw;
use query::Query;

/// `{explain: {find | aggregate | count | distinct | update | delete | findAndModify: …}, verbosity}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["explain"],
    doc: "tells how a command would be run, and with executionStats how much it would look at",
    primary: PrimaryRule::UnlessSecondaryOk,
    dies_with_client: true,
    permission: Permission::Computed(needs),
    parse: |request, shared| {
        idl::only(request, "explain", &["verbosity"])?;
        let verbosity = match request.get("verbosity") {
            None => Verbosity::ExecutionStats,
            Some(View::String("queryPlanner")) => Verbosity::QueryPlanner,
            Some(View::String("executionStats" | "allPlansExecution")) => Verbosity::ExecutionStats,
            Some(View::String(_)) => {
                return fail(
                    9,
                    "verbosity string must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}",
                );
            }
            Some(_) => return fail(9, "explain verbosity must be a string"),
        };
        match request.get("explain") {
            Some(View::Document(command)) => read(request, shared, command.to_document()?, verbosity),
            Some(other) => Err(idl::wrong_type("explain", "explain", other, "object")),
            None => Err(idl::missing("explain", "explain")),
        }
    },
    ..CommandSpec::BASE
};

/// What the command needs that is explained.
fn needs(request: &Request, needs: &mut Needs) {
    let Some(View::Document(command)) = request.get("explain") else { return };
    let (Ok(mut command), Ok(db)) = (command.to_document(), request.database()) else { return };
    let name = command.keys().next().cloned().unwrap_or_default();
    let Some(spec) = ALL.iter().find(|spec| spec.names.contains(&name.as_str())) else { return };
    command.insert("$db", db);
    if let Ok(command) = to_raw(&command) {
        needs.add_command(spec, &request.with_body(command.into_bytes().into()));
    }
}

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verbosity {
    /// The plan.
    QueryPlanner,
    /// The same, and what carrying it out would look at.
    ExecutionStats,
}

/// Reads a command that is to be explained: it must be one that could run.
pub(super) fn read(
    request: &Request,
    shared: &Arc<Shared>,
    mut command: Document,
    verbosity: Verbosity,
) -> Result<Box<dyn Invocation>> {
    let name = command.keys().next().cloned().unwrap_or_default();
    let Some(spec) = shared.commands.find(&name) else {
        return fail(59, format!("Explain failed due to unknown command: {name}"));
    };
    if spec.name() == "aggregate" {
        command.entry("cursor".to_owned()).or_insert_with(|| doc! {}.into());
        command.remove("explain");
    }
    command.insert("$db", request.database()?);
    let inner = request.with_body(to_raw(&command)?.into_bytes().into());
    (spec.parse)(&inner, shared)?;
    let query =
        Query::of(spec.name(), &command).ok_or_else(|| CommandError::new(20, format!("Cannot explain cmd: {name}")))?;
    let ns = idl::collection(&inner)?;
    Ok(Box::new(Explain { ns, query, verbosity }))
}

struct Explain {
    ns: Namespace,
    query: Query,
    verbosity: Verbosity,
}

impl Invocation for Explain {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            run.op.view().ns = self.ns.to_string();
            let inside = enter(run.op, &self.ns, Access::Read).await?;
            let reply = self.explained(&run).await;
            drop(inside);
            reply
        })
    }
}

impl Explain {
    async fn explained(&self, run: &Run<'_>) -> Result<Reply, Failed> {
        let shared = run.shared();
        let collation = idl::collation(self.query.collation.as_ref().map(View::from), shared, &self.ns)?;
        let mut context = shared.query_context(collation.clone());
        if let Some(variables) = &self.query.variables {
            context.bind_all(variables)?;
        }
        let matcher = Arc::new(Matcher::parse(&to_raw(&self.query.filter)?, &context)?);
        let sort = match &self.query.sort {
            Some(sort) => Some(Sort::parse(&to_raw(sort)?, collation)?),
            None => None,
        };
        let hint = Hint::parse(self.query.hint.as_ref().map(View::from))?;
        let scan = match shared.catalog.get(&self.ns) {
            None => None,
            Some(collection) => Some(match &sort {
                Some(sort) => Scan::in_order(run.op, collection, Arc::clone(&matcher), hint.as_ref(), sort)?,
                None => (Scan::new(run.op, collection, Arc::clone(&matcher), hint.as_ref())?, true),
            }),
        };
        let mut winning = match &scan {
            None => doc! { "stage": "EOF" },
            Some((scan, in_order)) => self.query.wrapped(plan::of(scan, &self.query.filter, &matcher), *in_order),
        };
        let mut reply = doc! {
            "queryPlanner": {
                "plannerVersion": 1,
                "namespace": self.ns.to_string(),
                "indexFilterSet": false,
                "parsedQuery": query::parsed(&self.query.filter),
                "winningPlan": winning.clone(),
                "rejectedPlans": [],
            },
        };
        if self.verbosity == Verbosity::ExecutionStats {
            let (mut found, mut examined) = (0_u64, crate::plan::Examined::default());
            if let Some((mut scan, _)) = scan {
                let most = self.query.most();
                while found < most && scan.next(run.op).await?.is_some() {
                    found += 1;
                }
                examined = scan.examined();
            }
            let returned = found.saturating_sub(self.query.skip);
            winning.insert("nReturned", number(returned));
            reply.insert(
                "executionStats",
                doc! {
                    "executionSuccess": true,
                    "nReturned": number(returned),
                    "executionTimeMillis": 0,
                    "totalKeysExamined": number(examined.keys),
                    "totalDocsExamined": number(examined.documents),
                    "executionStages": winning,
                },
            );
        }
        let reply = match &self.query.stages {
            // What the planner does stands inside the first stage.
            Some(rest) if !rest.is_empty() => {
                let first = Bson::Document(doc! { "$cursor": reply });
                doc! { "stages": std::iter::once(first).chain(rest.iter().cloned()).collect::<Vec<_>>() }
            }
            _ => reply,
        };
        Ok(Reply::from_document(&self.with_server(shared, reply))?)
    }

    fn with_server(&self, shared: &Shared, mut reply: Document) -> Document {
        let address = shared.topology.address();
        let (host, port) = address.rsplit_once(':').unwrap_or((&address, "0"));
        reply.insert(
            "serverInfo",
            doc! {
                "host": host,
                "port": port.parse::<i32>().unwrap_or(0),
                "version": shared.profile.version,
                "gitVersion": concat!("backfire-", env!("CARGO_PKG_VERSION")),
            },
        );
        reply
    }
}
