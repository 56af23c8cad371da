//! Commands, one file each: how it is read and what it does stand together.
//!
//! A command is a [`CommandSpec`], a value; [`ALL`] is the one list of them, from which the table, the help of
//! `listCommands` and the reference are made.

pub mod batch;
pub mod idl;
mod on_view;
mod user_fields;

use std::collections::HashMap;
use std::sync::Arc;

use bson::RawDocumentBuf;
use futures_util::future::BoxFuture;

use crate::auth::Permission;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::ops::{Op, OpKind};
use crate::pipeline::Failed;
use crate::profile::Profile;
use crate::server::Shared;
use crate::sessions::CheckedOut;

/// Everything about a command that the stages need to know.
pub struct CommandSpec {
    /// Its name, then its aliases.
    pub names: &'static [&'static str],
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// `op` in `$currentOp` before its statements run.
    pub kind: OpKind,
    /// Runs on the `admin` database only.
    pub admin_only: bool,
    /// Whether its sender must have logged in; a command without runs outside of any session.
    pub needs_auth: bool,
    /// What its sender must be allowed to do.
    pub permission: Permission,
    /// Exists only with `enableTestCommands`.
    pub test_only: bool,
    /// Exists in this version.
    pub exists: fn(&Profile) -> bool,
    /// On which nodes it runs.
    pub primary: PrimaryRule,
    /// Whether it takes a `txnNumber`.
    pub retryable_write: bool,
    /// Whether it runs in a multi-document transaction.
    pub in_transactions: bool,
    /// Whether it ends one.
    pub ends_transaction: bool,
    /// Whether it takes a `writeConcern`.
    pub write_concern: bool,
    /// Whether it takes the read concern `snapshot`, where the version has that.
    pub snapshot_reads: bool,
    /// Where `ok` stands in its reply.
    pub ok_place: OkPlace,
    /// Whether events tell of it: commands that read or write data.
    pub observed: bool,
    /// Whether it ends when its client goes away (facts/server.md 6.1).
    pub dies_with_client: bool,
    /// What it says of a field that it does not have.
    pub unknown_field: UnknownField,
    /// Reads the request.
    pub parse: Parse,
}

/// The error about a field of a request that is not known.
pub type UnknownField = fn(&Request, &Profile, &'static str, &str) -> CommandError;

/// Reads a request: what is wrong with it is said here, before anything is done.
pub type Parse = fn(&Request, &Arc<Shared>) -> Result<Box<dyn Invocation>>;

/// On which nodes a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrimaryRule {
    /// Only on the primary.
    Required,
    /// Elsewhere only if the read preference allows it.
    UnlessSecondaryOk,
    /// Everywhere.
    Anywhere,
}

/// Where `ok` stands (facts/server.md 11.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OkPlace {
    /// insert, update and delete append it themselves.
    BeforeWriteConcernError,
    /// Everything else.
    AfterWriteConcernError,
}

impl CommandSpec {
    /// What most commands have in common.
    pub const BASE: Self = Self {
        names: &[],
        doc: "",
        kind: OpKind::Command,
        admin_only: false,
        needs_auth: true,
        permission: Permission::LoggedIn,
        test_only: false,
        exists: |_| true,
        primary: PrimaryRule::Anywhere,
        retryable_write: false,
        in_transactions: false,
        ends_transaction: false,
        write_concern: false,
        snapshot_reads: false,
        ok_place: OkPlace::AfterWriteConcernError,
        observed: false,
        dies_with_client: false,
        unknown_field: |_, _, owner, field| idl::unknown(owner, field),
        parse: |_, _| crate::error::fail(238, "not implemented"),
    };
    /// What commands of the `admin` database have in common.
    pub const ADMIN: Self = Self { admin_only: true, ..Self::BASE };
    /// What commands that read data have in common.
    pub const READ: Self =
        Self { primary: PrimaryRule::UnlessSecondaryOk, observed: true, dies_with_client: true, ..Self::BASE };
    /// What the commands that end a transaction have in common.
    pub const END_OF_TRANSACTION: Self = Self {
        admin_only: true,
        in_transactions: true,
        ends_transaction: true,
        primary: PrimaryRule::Required,
        write_concern: true,
        observed: true,
        ..Self::BASE
    };
    /// What commands that change collections and indexes have in common.
    pub const DDL: Self = Self { primary: PrimaryRule::Required, write_concern: true, ..Self::BASE };
    /// What the retryable write commands have in common.
    pub const WRITE: Self = Self {
        primary: PrimaryRule::Required,
        write_concern: true,
        retryable_write: true,
        in_transactions: true,
        ok_place: OkPlace::BeforeWriteConcernError,
        observed: true,
        ..Self::BASE
    };

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }
}

impl std::fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandSpec").field("names", &self.names).finish_non_exhaustive()
    }
}

/// A command that has been read and can run once.
pub trait Invocation: Send + Sync {
    /// `db.collection`, for the filter of `failCommand`; `None` without one.
    fn namespace(&self) -> Option<String> {
        None
    }

    /// The application's name that a handshake brings, for the filter of `failCommand`.
    fn app_name(&self) -> Option<&str> {
        None
    }

    /// Whether a command that usually only reads writes this time. It does not end when its client goes away then
    /// (facts/server.md 6.1).
    fn writes(&self) -> bool {
        false
    }

    /// Runs it.
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a>;
}

/// A running command.
pub type Running<'a> = BoxFuture<'a, Result<Reply, Failed>>;

/// What a running command has.
pub struct Run<'a> {
    /// The operation.
    pub op: &'a Arc<Op>,
    /// The request it was read from.
    pub request: &'a Request,
    /// The session, for a retryable write and for a command that ends a transaction.
    pub session: Option<&'a mut CheckedOut>,
    /// `{w: 0}`.
    pub unacknowledged: bool,
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("op", &self.op.id).finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// The server.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.op.shared
    }
}

/// What a command answers, without the fields that every reply has.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The command's own fields, in order.
    pub fields: RawDocumentBuf,
    /// False for the few failures without a code.
    pub ok: bool,
    /// `errmsg` of such a failure.
    pub message: Option<String>,
    /// The next round of an exhaust command.
    pub again: Option<Box<Request>>,
}

impl Reply {
    /// A reply with these fields.
    pub fn new(fields: RawDocumentBuf) -> Self {
        Self { fields, ok: true, message: None, again: None }
    }

    /// A reply with nothing but `ok: 1`.
    pub fn empty() -> Self {
        Self::new(RawDocumentBuf::new())
    }

    /// A failure without a code: `ok: 0` and a text.
    pub fn bare_failure(message: impl Into<String>) -> Self {
        Self { ok: false, message: Some(message.into()), ..Self::empty() }
    }

    /// A reply from a decoded document.
    ///
    /// # Errors
    /// When the document cannot be encoded.
    pub fn from_document(document: &bson::Document) -> Result<Self> {
        Ok(Self::new(crate::value::view::to_raw(document)?))
    }
}

struct Immediate<F>(F);

impl<F: FnOnce(Run<'_>) -> Result<Reply> + Send + Sync> Invocation for Immediate<F> {
    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        let result = (self.0)(run).map_err(Failed::Error);
        Box::pin(std::future::ready(result))
    }
}

/// An invocation that never waits.
pub fn immediate(run: impl FnOnce(Run<'_>) -> Result<Reply> + Send + Sync + 'static) -> Result<Box<dyn Invocation>> {
    Ok(Box::new(Immediate(run)))
}

macro_rules! commands {
    ($($(#[$attribute:meta])* $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// All commands.
        pub static ALL: &[&CommandSpec] = &[$(&$module::SPEC),*];
    };
}

commands! {
    abort_transaction,
    aggregate,
    build_info,
    bulk_write,
    coll_mod,
    coll_stats,
    commit_transaction,
    configure_fail_point,
    connection_status,
    count,
    create,
    create_indexes,
    create_user,
    current_op,
    db_stats,
    delete,
    distinct,
    drop,
    drop_database,
    drop_indexes,
    drop_user,
    end_sessions,
    explain,
    find,
    find_and_modify,
    get_cmd_line_opts,
    get_default_rw_concern,
    get_log,
    get_more,
    get_nonce,
    get_parameter,
    hello,
    host_info,
    insert,
    is_master,
    kill_all_sessions,
    kill_all_sessions_by_pattern,
    kill_cursors,
    kill_op,
    kill_sessions,
    list_collections,
    list_commands,
    list_databases,
    list_indexes,
    logout,
    ping,
    profile,
    refresh_sessions,
    rename_collection,
    repl_set_get_config,
    repl_set_get_status,
    repl_set_step_down,
    sasl_continue,
    sasl_start,
    server_status,
    set_parameter,
    start_session,
    update,
    update_user,
    users_info,
    validate,
    wait_for_fail_point,
    whatsmyuri,
}

/// The commands of one server, by name and alias.
#[derive(Debug)]
pub struct CommandTable {
    by_name: HashMap<&'static str, &'static CommandSpec>,
}

impl CommandTable {
    /// The commands that exist in this version, with those for tests or without.
    pub fn new(profile: &Profile, test_commands: bool) -> Self {
        let exists = |spec: &&&'static CommandSpec| (test_commands || !spec.test_only) && (spec.exists)(profile);
        let by_name = ALL.iter().filter(exists).flat_map(|spec| spec.names.iter().map(|name| (*name, *spec))).collect();
        Self { by_name }
    }

    /// Every command once, by name.
    pub fn all(&self) -> Vec<&'static CommandSpec> {
        let mut specs: Vec<_> =
            self.by_name.iter().filter(|(name, spec)| **name == spec.name()).map(|(_, spec)| *spec).collect();
        specs.sort_by_key(|spec| spec.name());
        specs
    }

    /// The command called `name`.
    pub fn find(&self, name: &str) -> Option<&'static CommandSpec> {
        self.by_name.get(name).copied()
    }
}
