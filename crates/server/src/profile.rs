//! Every difference between server versions, one row per version. Code elsewhere asks the row, never the version.

/// When the clock of `maxTimeMS` starts (facts/server.md 1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineOrigin {
    /// When the deadline is armed: time in a `failCommand` block is not counted.
    Armed,
    /// When the command started: a block as long as `maxTimeMS` makes it fail right after the block.
    CommandStart,
}

/// What a server version does differently from another.
#[derive(Debug)]
pub struct Profile {
    /// The name on the command line.
    pub name: &'static str,
    /// `buildInfo.version`.
    pub version: &'static str,
    /// `buildInfo.versionArray`.
    pub version_array: [i32; 4],
    /// `maxWireVersion` (facts/server.md 9).
    pub max_wire_version: i32,
    /// Whether `hello` exists and `helloOk` is answered (4.4.2).
    pub hello: bool,
    /// See [`DeadlineOrigin`].
    pub deadline_origin: DeadlineOrigin,
    /// `failCommand` with both `closeConnection` and `blockConnection`: whether it blocks first (facts/server.md 4.2).
    pub fail_command_blocks_before_close: bool,
    /// The text of an error made by `failCommand`.
    pub fail_command_text: &'static str,
    /// Whether `failAllCommands` is known to `failCommand`.
    pub fail_all_commands: bool,
    /// `failCommand` with an `appName` catches the handshake that brings the name (4.9). Earlier, the name counts from the
    /// connection's second command on.
    pub fail_command_reads_handshake: bool,
    /// Replies name the statements that were answered from history (`retriedStmtIds`; facts/server.md 2.4).
    pub retried_stmt_ids: bool,
    /// Errors of a write that wrote nothing carry `NoWritesPerformed` (facts/server.md 3.5).
    pub no_writes_performed: bool,
    /// Code names and texts say "primary" and "writable" where older ones said "master".
    pub primary_terms: bool,
    /// `maxTimeMS is out of range` names the value and the range (facts/server.md 3.1).
    pub max_time_text_names_range: bool,
    /// Commands other than the handshake may come as `OP_QUERY`, and legacy writes are accepted.
    pub legacy_opcodes: bool,
    /// `drop` of a collection that does not exist succeeds (7.0).
    pub drop_missing_is_ok: bool,
    /// find, aggregate and the writes take `let` (5.0).
    pub let_in_commands: bool,
    /// Fields that begin with `$` may be stored, except at the top of a document that operators change or that replaces
    /// another, and in `_id` (5.0).
    pub stores_dollar_fields: bool,
    /// `bulkWrite` exists, and statements of `update` take a `sort` (8.0).
    pub bulk_write: bool,
    /// `find`, `aggregate` and `distinct` outside of transactions take the read concern `snapshot` (5.0).
    pub snapshot_reads: bool,
    /// An operator without fields, such as `{$set: {}}`, changes nothing. Earlier it is refused (5.0).
    pub empty_update_operators: bool,
    /// Unknown fields of `findAndModify` are refused with its name and 40415, like those of other commands (5.0).
    pub find_and_modify_names_itself: bool,
    /// `getnonce` exists (until 6.2).
    pub getnonce: bool,
    /// `serverStatus` counts log-ins of cluster members, and handshakes that ask for a user's mechanisms (5.0).
    pub counts_cluster_log_ins: bool,
    /// The handshake that came with 4.4: `topologyVersion`, replies that wait or stream, `speculativeAuthenticate`.
    pub new_handshake: bool,
    /// Failed writes that can be tried again carry `RetryableWriteError` (4.4). Earlier the driver adds the label.
    pub labels_retryable_writes: bool,
    /// A multi-document transaction may create collections and indexes (4.4).
    pub creates_in_transactions: bool,
    /// Fields of commands that came later: the command or its part, `*` for every command, and the field.
    pub missing_fields: &'static [(&'static str, &'static str)],
    /// The code for a mechanism that is not known: `BadValue`, later `MechanismUnavailable`.
    pub unknown_mechanism_code: i32,
    /// A document that fails validation is refused with `errInfo` (5.0).
    pub validation_details: bool,
    /// Documents of a capped collection are neither deleted nor changed in size (until 4.4).
    pub capped_is_fixed: bool,
    /// Writes that name no write concern wait for a majority (5.0).
    pub majority_is_default: bool,
    /// Texts about transactions name a number as `{ txnNumber: 5 }` (5.0).
    pub transaction_texts_have_documents: bool,
    /// Stages, operators and accumulators of pipelines that came later.
    pub missing_in_pipelines: &'static [&'static [&'static str]],
    /// Fields in `serverStatus` and `$currentOp` that came with 8.0 (facts/server.md 5.5).
    pub execution_queues: bool,
}

/// `rawData`, of 8.2.
const RAW_DATA: (&str, &str) = ("*", "rawData");

/// What came with 4.4.0.
const NEW_IN_4_4: &[&str] = &["$binarySize", "$bsonSize", "$isNumber", "$replaceAll", "$replaceOne", "$unionWith"];

/// What came after 4.4.0, and before 6.0.
const NEW_BEFORE_6_0: &[&str] = &[
    // 4.4.2
    "$rand",
    "$sampleRate",
    // 5.0
    "$setWindowFields",
    "$dateAdd",
    "$dateDiff",
    "$dateSubtract",
    "$dateTrunc",
    "$getField",
    "$setField",
    "$unsetField",
    // 5.1, 5.3
    "$densify",
    "$documents",
    "$fill",
    "$tsIncrement",
    "$tsSecond",
    // 5.2
    "$bottom",
    "$bottomN",
    "$firstN",
    "$lastN",
    "$maxN",
    "$minN",
    "$sortArray",
    "$top",
    "$topN",
];

/// What came with 6.3.
const NEW_IN_6_3: &[&str] = &["$bitAnd", "$bitNot", "$bitOr", "$bitXor"];

/// 4.4.0, the version that the recorded replies come from.
pub static V4_4: Profile = AS_4_4;

const AS_4_4: Profile = Profile {
    name: "4.4",
    version: "4.4.0",
    version_array: [4, 4, 0, 0],
    max_wire_version: 9,
    hello: false,
    deadline_origin: DeadlineOrigin::Armed,
    fail_command_blocks_before_close: false,
    fail_command_text: "Failing command due to 'failCommand' failpoint",
    fail_all_commands: false,
    fail_command_reads_handshake: false,
    retried_stmt_ids: false,
    no_writes_performed: false,
    primary_terms: false,
    max_time_text_names_range: false,
    legacy_opcodes: true,
    drop_missing_is_ok: false,
    let_in_commands: false,
    stores_dollar_fields: false,
    bulk_write: false,
    snapshot_reads: false,
    empty_update_operators: false,
    find_and_modify_names_itself: false,
    getnonce: true,
    counts_cluster_log_ins: false,
    new_handshake: true,
    labels_retryable_writes: true,
    creates_in_transactions: true,
    missing_fields: &[RAW_DATA],
    unknown_mechanism_code: 2,
    validation_details: false,
    capped_is_fixed: true,
    majority_is_default: false,
    transaction_texts_have_documents: false,
    missing_in_pipelines: &[NEW_BEFORE_6_0, NEW_IN_6_3],
    execution_queues: false,
};

/// 4.2.
pub static V4_2: Profile = Profile {
    name: "4.2",
    version: "4.2.24",
    version_array: [4, 2, 24, 0],
    max_wire_version: 8,
    new_handshake: false,
    labels_retryable_writes: false,
    creates_in_transactions: false,
    missing_fields: &[
        RAW_DATA,
        ("insert", "comment"),
        ("update", "comment"),
        ("delete", "comment"),
        ("findAndModify", "comment"),
        ("findAndModify", "hint"),
        ("delete.deletes", "hint"),
        ("find", "allowDiskUse"),
    ],
    missing_in_pipelines: &[NEW_IN_4_4, NEW_BEFORE_6_0, NEW_IN_6_3],
    ..AS_4_4
};

/// 7.0.
pub static V7_0: Profile = AS_7_0;

const AS_7_0: Profile = Profile {
    name: "7.0",
    version: "7.0.14",
    version_array: [7, 0, 14, 0],
    max_wire_version: 21,
    hello: true,
    deadline_origin: DeadlineOrigin::CommandStart,
    fail_command_blocks_before_close: true,
    fail_command_text: "Failing command via 'failCommand' failpoint",
    fail_all_commands: true,
    fail_command_reads_handshake: true,
    retried_stmt_ids: true,
    no_writes_performed: true,
    primary_terms: true,
    max_time_text_names_range: true,
    legacy_opcodes: false,
    drop_missing_is_ok: true,
    let_in_commands: true,
    stores_dollar_fields: true,
    bulk_write: false,
    snapshot_reads: true,
    empty_update_operators: true,
    find_and_modify_names_itself: true,
    getnonce: false,
    counts_cluster_log_ins: true,
    new_handshake: true,
    labels_retryable_writes: true,
    creates_in_transactions: true,
    missing_fields: &[RAW_DATA],
    unknown_mechanism_code: 334,
    validation_details: true,
    capped_is_fixed: false,
    majority_is_default: true,
    transaction_texts_have_documents: true,
    missing_in_pipelines: &[],
    execution_queues: false,
};

/// 6.0.
pub static V6_0: Profile = Profile {
    name: "6.0",
    version: "6.0.19",
    version_array: [6, 0, 19, 0],
    max_wire_version: 17,
    drop_missing_is_ok: false,
    getnonce: true,
    missing_in_pipelines: &[NEW_IN_6_3],
    ..AS_7_0
};

/// 8.0.
pub static V8_0: Profile = AS_8_0;

const AS_8_0: Profile = Profile {
    name: "8.0",
    version: "8.0.4",
    version_array: [8, 0, 4, 0],
    max_wire_version: 25,
    bulk_write: true,
    execution_queues: true,
    ..AS_7_0
};

/// 8.2.
pub static V8_2: Profile = Profile {
    name: "8.2",
    version: "8.2.1",
    version_array: [8, 2, 1, 0],
    max_wire_version: 27,
    missing_fields: &[],
    ..AS_8_0
};

/// All profiles, oldest first.
pub static PROFILES: [&Profile; 6] = [&V4_2, &V4_4, &V6_0, &V7_0, &V8_0, &V8_2];

impl Profile {
    /// The profile called `name`.
    pub fn by_name(name: &str) -> Option<&'static Profile> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// Whether a command, or a part of one, has no such field in this version.
    pub fn lacks_field(&self, owner: &str, field: &str) -> bool {
        self.fields_lacking(owner).any(|name| name == field)
    }

    /// The fields that a command, or a part of one, does not have in this version.
    pub fn fields_lacking(&self, owner: &str) -> impl Iterator<Item = &'static str> {
        self.missing_fields.iter().filter(move |(of, _)| *of == owner || *of == "*").map(|(_, name)| *name)
    }

    /// The name of an error code under this version.
    pub fn code_name(&self, code: i32) -> std::borrow::Cow<'static, str> {
        match crate::error::codes::lookup(code) {
            Some(row) if self.primary_terms => row.new_name.unwrap_or(row.name).into(),
            Some(row) => row.name.into(),
            None => format!("Location{code}").into(),
        }
    }

    /// The text of an error that says this node takes no writes (10107, 13435).
    pub fn not_primary_text(&self) -> &'static str {
        if self.primary_terms { "not primary" } else { "not master" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_follow_the_version() {
        for (code, old, new) in [
            (10107, "NotMaster", "NotWritablePrimary"),
            (13435, "NotMasterNoSlaveOk", "NotPrimaryNoSecondaryOk"),
            (50768, "Location50768", "NotARetryableWriteCommand"),
            (50, "MaxTimeMSExpired", "MaxTimeMSExpired"),
            (40415, "Location40415", "Location40415"),
        ] {
            assert_eq!((&*V4_4.code_name(code), &*V7_0.code_name(code)), (old, new));
        }
    }
}
