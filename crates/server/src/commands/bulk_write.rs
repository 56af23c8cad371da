//! `bulkWrite`: writes to several collections in one command (8.0).

use backfire_model::Namespace;
use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use bson::{Document, RawDocument};
use bytes::Bytes;

use super::batch::{self, Shape};
use super::delete::{self, Delete};
use super::insert::Insert;
use super::update::{self, Update};
use super::{CommandSpec, Invocation, OkPlace, Run, Running, idl};
use crate::auth::{Action, Needs, Permission, Resource};
use crate::cursors::from_list;
use crate::error::{Result, fail};
use crate::net::Request;
use crate::net::request::raw;
use crate::ops::OpKind;
use crate::pipeline::Failed;
use crate::profile::Profile;
use crate::stages::reply::append_all;
use crate::storage::Value;
use crate::value::View;
use crate::write::prepare::{batch as statements, statement_ids};
use crate::write::results::{Single, append_number};
use crate::write::{WriteKind, WriteResults};

/// `{bulkWrite: 1, ops: [{insert | update | delete: position in nsInfo, …}, …], nsInfo: [{ns}, …], ordered, errorsOnly}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["bulkWrite"],
    doc: "writes to several collections",
    admin_only: true,
    exists: |profile| profile.bulk_write,
    ok_place: OkPlace::AfterWriteConcernError,
    permission: Permission::Computed(needs),
    parse: |request, shared| {
        idl::only_and_let(request, shared.profile, COMMAND, FIELDS)?;
        let infos = statements(request, COMMAND, "nsInfo")?;
        let namespaces = infos.iter().map(|info| namespace(raw(info))).collect::<Result<Vec<_>>>()?;
        let ops = statements(request, COMMAND, "ops")?;
        let ids = statement_ids(request, ops.len())?;
        let writes = ops.iter().zip(ids).map(|(op, id)| Write::parse(raw(op), id, &namespaces, shared.profile));
        let flag = |name: &str| idl::boolean(request.get(name), COMMAND, name, false);
        let batch_size = match request.get("cursor") {
            Some(View::Document(cursor)) => cursor.get("batchSize").and_then(idl::whole_number),
            _ => None,
        };
        Ok(Box::new(BulkWrite {
            writes: writes.collect::<Result<_>>()?,
            variables: idl::variables(request, COMMAND)?,
            ordered: flag("ordered")?.unwrap_or(true),
            errors_only: flag("errorsOnly")?.unwrap_or(false),
            bypass_validation: idl::bypasses_validation(request, COMMAND)?,
            batch_size: batch_size.and_then(|size| usize::try_from(size).ok()),
        }))
    },
    ..CommandSpec::WRITE
};

fn needs(request: &Request, needs: &mut Needs) {
    let infos = statements(request, COMMAND, "nsInfo").unwrap_or_default();
    let bypass = request.get("bypassDocumentValidation").is_some_and(View::is_true);
    for op in statements(request, COMMAND, "ops").unwrap_or_default() {
        let Some((name, at)) = raw(&op).iter().next().and_then(std::result::Result::ok) else { continue };
        let at = idl::whole_number(at.into()).and_then(|at| usize::try_from(at).ok());
        let Some(Ok(ns)) = at.and_then(|at| infos.get(at)).map(|info| namespace(raw(info))) else { continue };
        let resource = Resource::Collection(ns);
        match name.as_str() {
            "insert" => needs.add(Action::Insert, resource.clone()),
            "delete" => needs.add(Action::Remove, resource.clone()),
            _ => {
                needs.add(Action::Update, resource.clone());
                if raw(&op).get_bool("upsert").unwrap_or(false) {
                    needs.add(Action::Insert, resource.clone());
                }
            }
        }
        if bypass {
            needs.add(Action::BypassDocumentValidation, resource);
        }
    }
}

const COMMAND: &str = "bulkWrite";
const FIELDS: &[&str] = &["ops", "nsInfo", "ordered", "errorsOnly", "bypassDocumentValidation", "cursor"];
/// The namespace of the cursor with the results.
const CURSOR_NAMESPACE: &str = "admin.$cmd.bulkWrite";

struct BulkWrite {
    writes: Vec<Write>,
    variables: Option<Document>,
    ordered: bool,
    errors_only: bool,
    bypass_validation: bool,
    batch_size: Option<usize>,
}

struct Write {
    ns: Namespace,
    statement: i32,
    kind: Kind,
}

enum Kind {
    Insert(Bytes),
    Update(Box<update::Statement>),
    Delete(Box<delete::Statement>),
}

fn namespace(info: &RawDocument) -> Result<Namespace> {
    let ns = match info.get("ns").ok().flatten() {
        Some(RawBsonRef::String(ns)) => ns,
        Some(other) => return Err(idl::wrong_type("NamespaceInfoEntry", "ns", other.into(), "string")),
        None => return Err(idl::missing("NamespaceInfoEntry", "ns")),
    };
    match ns.split_once('.') {
        Some((database, collection)) => idl::namespace(database, collection),
        None => fail(73, format!("Invalid namespace specified '{ns}'")),
    }
}

impl Write {
    fn parse(op: &RawDocument, statement: i32, namespaces: &[Namespace], profile: &Profile) -> Result<Self> {
        let Some((name, at)) = op.iter().next().and_then(std::result::Result::ok) else {
            return fail(9, "The BulkWriteOps must have at least one field");
        };
        let position = idl::whole_number(at.into()).and_then(|at| usize::try_from(at).ok());
        let Some(ns) = position.and_then(|at| namespaces.get(at)) else {
            return fail(2, format!("BulkWrite ops entry {statement} has an invalid nsInfo index."));
        };
        let kind = match name.as_str() {
            "insert" => {
                let document =
                    op.get_document("document").map_err(|_| idl::missing("BulkWriteInsertOp", "document"))?;
                Kind::Insert(Bytes::copy_from_slice(document.as_bytes()))
            }
            "update" => {
                let renamed = renamed(op, &[("filter", "q"), ("updateMods", "u"), ("constants", "c")]);
                let parsed = update::Statement::parse(&renamed, "BulkWriteUpdateOp", profile)?;
                Kind::Update(Box::new(parsed))
            }
            "delete" => {
                let mut renamed = renamed(op, &[("filter", "q")]);
                let multi = op.get("multi").ok().flatten().is_some_and(|multi| View::from(multi).is_true());
                renamed.append(cstr!("limit"), if multi { 0 } else { 1 });
                Kind::Delete(Box::new(delete::Statement::parse(&renamed, "BulkWriteDeleteOp", profile)?))
            }
            other => return fail(9, format!("Unrecognized field in BulkWriteOp: {other}")),
        };
        Ok(Self { ns: ns.clone(), statement, kind })
    }
}

/// The fields of an entry of `ops` after the first, with the names that the write commands give them.
fn renamed(op: &RawDocument, names: &[(&str, &str)]) -> RawDocumentBuf {
    let is_delete = op.get("delete").is_ok_and(|delete| delete.is_some());
    let mut statement = RawDocumentBuf::new();
    for (name, value) in op.iter().skip(1).filter_map(std::result::Result::ok) {
        let renamed = names.iter().find(|(long, _)| *long == name.as_str());
        match renamed.and_then(|(_, short)| bson::raw::CString::try_from(*short).ok()) {
            Some(short) => statement.append(&short, value),
            // A delete says `limit` instead.
            None if is_delete && name.as_str() == "multi" => {}
            None => statement.append(name, value),
        }
    }
    statement
}

/// What was done so far.
#[derive(Default)]
struct Results {
    entries: Vec<Value>,
    errors: i64,
    inserted: i64,
    matched: i64,
    modified: i64,
    upserted: i64,
    deleted: i64,
    retried: Vec<i32>,
}

impl Results {
    fn add(&mut self, index: usize, write: &Write, single: Single, errors_only: bool) {
        if single.retried {
            self.retried.push(write.statement);
        }
        let failed = single.error.is_some();
        self.errors += i64::from(failed);
        match write.kind {
            Kind::Insert(_) => self.inserted += single.n,
            Kind::Update(_) if single.upserted.is_some() => self.upserted += 1,
            Kind::Update(_) => {
                self.matched += single.n;
                self.modified += single.modified;
            }
            Kind::Delete(_) => self.deleted += single.n,
        }
        if failed || !errors_only {
            let is_update = matches!(write.kind, Kind::Update(_));
            self.entries.push(batch::value(&entry(index, is_update, single)));
        }
    }
}

/// `{ok, idx, n, [nModified], [upserted]}`, or `{ok: 0, idx, code, errmsg, …, n}`.
fn entry(index: usize, is_update: bool, single: Single) -> RawDocumentBuf {
    let mut entry = RawDocumentBuf::new();
    entry.append(cstr!("ok"), if single.error.is_some() { 0.0 } else { 1.0 });
    entry.append(cstr!("idx"), index as i32);
    if let Some(error) = &single.error {
        entry.append(cstr!("code"), error.code);
        entry.append(cstr!("errmsg"), error.message.as_str());
        if let Some(extra) = &error.extra {
            append_all(&mut entry, extra);
        }
    }
    append_number(&mut entry, cstr!("n"), single.n);
    if is_update {
        append_number(&mut entry, cstr!("nModified"), single.modified);
    }
    if let Some(id) = single.upserted.and_then(|id| bson::RawBson::try_from(id).ok()) {
        let mut upserted = RawDocumentBuf::new();
        upserted.append(cstr!("_id"), id);
        entry.append(cstr!("upserted"), upserted);
    }
    entry
}

impl Invocation for BulkWrite {
    fn namespace(&self) -> Option<String> {
        self.writes.first().map(|write| write.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, mut run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            run.op.view().kind = OpKind::Command;
            let mut results = Results::default();
            for (index, write) in self.writes.iter().enumerate() {
                run.op.view().ns = write.ns.to_string();
                let single = self.one(&mut run, write).await?;
                let failed = single.error.is_some();
                results.add(index, write, single, self.errors_only);
                if failed && (self.ordered || run.op.is_in_transaction()) {
                    break;
                }
            }
            self.reply(&run, results).await
        })
    }
}

impl BulkWrite {
    /// Runs one write as the command of its kind would run it.
    async fn one(&self, run: &mut Run<'_>, write: &Write) -> Result<Single, Failed> {
        let (ns, ids) = (write.ns.clone(), vec![write.statement]);
        let kind = match write.kind {
            Kind::Insert(_) => WriteKind::Insert,
            Kind::Update(_) => WriteKind::Update,
            Kind::Delete(_) => WriteKind::Delete,
        };
        let bypass_validation = self.bypass_validation;
        let mut results = WriteResults::new(kind, run.op);
        match &write.kind {
            Kind::Insert(document) => {
                let insert =
                    Insert { ns, documents: vec![document.clone()], statements: ids, ordered: true, bypass_validation };
                insert.all(run, &mut results).await?;
            }
            Kind::Update(statement) => {
                let variables = self.variables.clone();
                let updates = vec![(**statement).clone()];
                let update = Update { ns, updates, ids, ordered: true, variables, bypass_validation };
                update.all(run, &mut results).await?;
            }
            Kind::Delete(statement) => {
                let variables = self.variables.clone();
                let delete = Delete { ns, deletes: vec![(**statement).clone()], ids, ordered: true, variables };
                delete.all(run, &mut results).await?;
            }
        }
        run.op.view().statement = None;
        Ok(results.into_single())
    }

    async fn reply(&self, run: &Run<'_>, results: Results) -> Result<super::Reply, Failed> {
        let Results { entries, errors, inserted, matched, modified, upserted, deleted, retried } = results;
        if !retried.is_empty() {
            let statements = retried.len() as u32;
            run.op.observe(|op, write| backfire_model::event::ServerEvent::Replayed { op, write, statements });
        }
        let (ns, documents) = (CURSOR_NAMESPACE.to_owned(), from_list(entries));
        let mut reply = batch::first(run, ns, documents, self.batch_size, false, Shape::BatchFirst, false).await?;
        for (name, count) in [
            (cstr!("nErrors"), errors),
            (cstr!("nInserted"), inserted),
            (cstr!("nMatched"), matched),
            (cstr!("nModified"), modified),
            (cstr!("nUpserted"), upserted),
            (cstr!("nDeleted"), deleted),
        ] {
            append_number(&mut reply.fields, name, count);
        }
        if !retried.is_empty() && run.shared().profile.retried_stmt_ids {
            reply.fields.append(cstr!("retriedStmtIds"), retried.into_iter().collect::<bson::raw::RawArrayBuf>());
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::V8_0;
    use bson::rawdoc;

    #[test]
    fn entries_of_ops_are_read_strictly() {
        let namespaces = [Namespace::new("a", "b")];
        for (op, code) in [
            (rawdoc! {}, 9),
            (rawdoc! {"insert": 1, "document": {}}, 2),
            (rawdoc! {"insert": 0}, 40414),
            (rawdoc! {"insert": -1, "document": {}}, 2),
            (rawdoc! {"replace": 0}, 9),
            (rawdoc! {"update": 0, "filter": {}, "updateMods": {}, "more": 1}, 40415),
            (rawdoc! {"update": 0, "updateMods": {}}, 40414),
            (rawdoc! {"delete": 0, "filter": 1}, 14),
        ] {
            let error = Write::parse(&op, 0, &namespaces, &V8_0).err().expect("refused");
            assert_eq!(error.code, code, "{op:?}: {}", error.message);
        }
        let op = rawdoc! {"delete": 0, "filter": {}, "multi": true};
        let write = Write::parse(&op, 7, &namespaces, &V8_0).expect("a delete");
        assert!(matches!(write.kind, Kind::Delete(_)) && write.statement == 7 && write.ns == namespaces[0]);
    }
}
