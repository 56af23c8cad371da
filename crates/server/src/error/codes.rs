//! Error codes: number, name and category, one row each.
//!
//! Source: mongod's `error_codes.yml` of r4.4.0 (facts/server.md 3.4); codes that came later stand behind them, marked
//! by the profile rows that use them. A code that is not in the table is called `Location<code>`.

/// A set of error categories, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Categories(u16);

impl Categories {
    /// No category.
    pub const NONE: Self = Self(0);
    /// The connection to some other node failed.
    pub const NETWORK: Self = Self(1);
    /// The operation was told to stop: always a top-level error, never a `writeErrors` entry (facts/server.md 3.3).
    pub const INTERRUPTION: Self = Self(1 << 1);
    /// This node was not primary; the reply carries `topologyVersion`.
    pub const NOT_PRIMARY: Self = Self(1 << 2);
    /// Only in `writeConcernError`.
    pub const WRITE_CONCERN: Self = Self(1 << 3);
    /// The server goes down.
    pub const SHUTDOWN: Self = Self(1 << 4);
    /// A time limit ran out.
    pub const EXCEEDED_TIME_LIMIT: Self = Self(1 << 5);
    /// Gets the label `RetryableWriteError` when the request has a `txnNumber` (facts/server.md 3.5).
    pub const RETRIABLE: Self = Self(1 << 6);
    /// The server closes the connection instead of answering.
    pub const CONNECTION_FATAL: Self = Self(1 << 7);
    /// The server is overloaded.
    pub const OVERLOADED: Self = Self(1 << 8);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of `other`'s categories is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One error code.
#[derive(Debug, Clone, Copy)]
pub struct CodeRow {
    /// The number.
    pub code: i32,
    /// Its name in r4.4.0, or in the release that introduced it.
    pub name: &'static str,
    /// Its name since the terms were changed (5.0), where it differs.
    pub new_name: Option<&'static str>,
    /// Its categories.
    pub categories: Categories,
}

const fn row(code: i32, name: &'static str) -> CodeRow {
    CodeRow { code, name, new_name: None, categories: Categories::NONE }
}

const fn with(code: i32, name: &'static str, categories: Categories) -> CodeRow {
    CodeRow { code, name, new_name: None, categories }
}

const fn renamed(code: i32, name: &'static str, new_name: &'static str, categories: Categories) -> CodeRow {
    CodeRow { code, name, new_name: Some(new_name), categories }
}

use Categories as C;

/// All known codes, by number.
pub const CODES: &[CodeRow] = &[
    row(0, "OK"),
    row(1, "InternalError"),
    row(2, "BadValue"),
    row(4, "NoSuchKey"),
    row(5, "GraphContainsCycle"),
    with(6, "HostUnreachable", C::NETWORK.and(C::RETRIABLE)),
    with(7, "HostNotFound", C::NETWORK.and(C::RETRIABLE)),
    row(8, "UnknownError"),
    row(9, "FailedToParse"),
    row(10, "CannotMutateObject"),
    row(11, "UserNotFound"),
    row(12, "UnsupportedFormat"),
    row(13, "Unauthorized"),
    row(14, "TypeMismatch"),
    row(15, "Overflow"),
    row(16, "InvalidLength"),
    row(17, "ProtocolError"),
    row(18, "AuthenticationFailed"),
    row(19, "CannotReuseObject"),
    row(20, "IllegalOperation"),
    row(21, "EmptyArrayOperation"),
    row(22, "InvalidBSON"),
    row(23, "AlreadyInitialized"),
    with(24, "LockTimeout", C::INTERRUPTION),
    row(25, "RemoteValidationError"),
    row(26, "NamespaceNotFound"),
    row(27, "IndexNotFound"),
    row(28, "PathNotViable"),
    row(29, "NonExistentPath"),
    row(30, "InvalidPath"),
    row(31, "RoleNotFound"),
    row(32, "RolesNotRelated"),
    row(33, "PrivilegeNotFound"),
    row(34, "CannotBackfillArray"),
    row(35, "UserModificationFailed"),
    row(36, "RemoteChangeDetected"),
    row(40, "ConflictingUpdateOperators"),
    row(43, "CursorNotFound"),
    row(46, "LockBusy"),
    row(47, "NoMatchingDocument"),
    row(48, "NamespaceExists"),
    row(49, "InvalidRoleModification"),
    with(50, "MaxTimeMSExpired", C::INTERRUPTION.and(C::EXCEEDED_TIME_LIMIT)),
    row(51, "ManualInterventionRequired"),
    row(52, "DollarPrefixedFieldName"),
    row(53, "InvalidIdField"),
    row(54, "NotSingleValueField"),
    row(55, "InvalidDBRef"),
    row(56, "EmptyFieldName"),
    row(57, "DottedFieldName"),
    row(58, "RoleModificationFailed"),
    row(59, "CommandNotFound"),
    row(61, "ShardKeyNotFound"),
    row(62, "OplogOperationUnsupported"),
    renamed(64, "WriteConcernFailed", "WriteConcernTimeout", C::WRITE_CONCERN),
    row(65, "MultipleErrorsOccurred"),
    row(66, "ImmutableField"),
    row(67, "CannotCreateIndex"),
    row(68, "IndexAlreadyExists"),
    row(70, "ShardNotFound"),
    row(71, "ReplicaSetNotFound"),
    row(72, "InvalidOptions"),
    row(73, "InvalidNamespace"),
    row(74, "NodeNotFound"),
    with(75, "WriteConcernLegacyOK", C::WRITE_CONCERN),
    row(76, "NoReplicationEnabled"),
    row(77, "OperationIncomplete"),
    with(79, "UnknownReplWriteConcern", C::WRITE_CONCERN),
    row(85, "IndexOptionsConflict"),
    row(86, "IndexKeySpecsConflict"),
    with(89, "NetworkTimeout", C::NETWORK.and(C::RETRIABLE)),
    row(90, "CallbackCanceled"),
    with(91, "ShutdownInProgress", C::SHUTDOWN.and(C::RETRIABLE)),
    row(93, "InvalidReplicaSetConfig"),
    row(94, "NotYetInitialized"),
    row(95, "NotSecondary"),
    row(96, "OperationFailed"),
    with(100, "UnsatisfiableWriteConcern", C::WRITE_CONCERN),
    row(104, "NodeNotElectable"),
    row(107, "LockFailed"),
    row(112, "WriteConflict"),
    row(115, "CommandNotSupported"),
    row(116, "DocTooLargeForCapped"),
    row(117, "ConflictingOperationInProgress"),
    row(121, "DocumentValidationFailure"),
    row(123, "NotAReplicaSet"),
    row(125, "CommandFailed"),
    row(133, "FailedToSatisfyReadPreference"),
    with(134, "ReadConcernMajorityNotAvailableYet", C::RETRIABLE),
    row(136, "CappedPositionLost"),
    row(139, "JSInterpreterFailure"),
    row(143, "CursorInUse"),
    row(146, "ExceededMemoryLimit"),
    row(148, "ReadConcernMajorityNotEnabled"),
    row(161, "IncompatibleCollationVersion"),
    row(165, "ViewDepthLimitExceeded"),
    row(166, "CommandNotSupportedOnView"),
    row(167, "OptionNotSupportedOnView"),
    row(168, "InvalidPipelineOperator"),
    row(170, "TooManyMatchingDocuments"),
    row(171, "CannotIndexParallelArrays"),
    row(175, "QueryPlanKilled"),
    row(181, "AmbiguousIndexKeyPattern"),
    row(182, "InvalidViewDefinition"),
    row(183, "ClientMetadataMissingField"),
    row(184, "ClientMetadataAppNameTooLarge"),
    row(185, "ClientMetadataDocumentTooLarge"),
    row(186, "ClientMetadataCannotBeMutated"),
    with(189, "PrimarySteppedDown", C::NOT_PRIMARY.and(C::RETRIABLE)),
    row(192, "FailPointEnabled"),
    row(197, "InvalidIndexSpecificationOption"),
    with(202, "NetworkInterfaceExceededTimeLimit", C::EXCEEDED_TIME_LIMIT),
    row(206, "NoSuchSession"),
    row(207, "InvalidUUID"),
    row(211, "KeyNotFound"),
    row(217, "IncompleteTransactionHistory"),
    row(218, "UpdateOperationFailed"),
    with(223, "IllegalOpMsgFlag", C::CONNECTION_FATAL),
    row(224, "QueryFeatureNotAllowed"),
    row(225, "TransactionTooOld"),
    row(226, "AtomicityFailure"),
    row(228, "SessionTransferIncomplete"),
    row(232, "MaxSubPipelineDepthExceeded"),
    with(233, "TooManyDocumentSequences", C::CONNECTION_FATAL),
    with(237, "CursorKilled", C::INTERRUPTION),
    row(238, "NotImplemented"),
    row(239, "SnapshotTooOld"),
    row(241, "ConversionFailure"),
    row(242, "CannotCreateCollection"),
    row(246, "SnapshotUnavailable"),
    row(251, "NoSuchTransaction"),
    row(256, "TransactionCommitted"),
    row(257, "TransactionTooLarge"),
    row(260, "InvalidResumeToken"),
    row(261, "TooManyLogicalSessions"),
    with(262, "ExceededTimeLimit", C::INTERRUPTION.and(C::EXCEEDED_TIME_LIMIT).and(C::RETRIABLE)),
    row(263, "OperationNotSupportedInTransaction"),
    row(264, "TooManyFilesOpen"),
    row(266, "FailPointSetFailed"),
    row(267, "PreparedTransactionInProgress"),
    row(276, "IndexBuildAborted"),
    with(279, "ClientDisconnect", C::INTERRUPTION),
    row(280, "ChangeStreamFatalError"),
    row(283, "WouldChangeOwningShard"),
    row(285, "IndexBuildAlreadyInProgress"),
    row(286, "ChangeStreamHistoryLost"),
    with(288, "ChecksumMismatch", C::CONNECTION_FATAL),
    with(290, "TransactionExceededLifetimeLimitSeconds", C::INTERRUPTION.and(C::EXCEEDED_TIME_LIMIT)),
    row(291, "NoQueryExecutionPlans"),
    row(292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    row(301, "DataCorruptionDetected"),
    row(322, "APIVersionError"),
    row(323, "APIStrictError"),
    row(324, "APIDeprecationError"),
    row(334, "MechanismUnavailable"),
    row(352, "UnsupportedOpQueryCommand"),
    row(365, "TemporarilyUnavailable"),
    row(371, "UserWritesBlocked"),
    row(386, "DuplicateKeyId"),
    row(391, "ReauthenticationRequired"),
    with(433, "AdmissionQueueOverflow", C::OVERLOADED),
    with(449, "RateLimitExceeded", C::OVERLOADED),
    with(462, "IngressRequestRateLimitExceeded", C::OVERLOADED.and(C::RETRIABLE)),
    with(9001, "SocketException", C::NETWORK.and(C::RETRIABLE)),
    row(10003, "OBSOLETE_CannotGrowDocumentInCappedNamespace"),
    renamed(10107, "NotMaster", "NotWritablePrimary", C::NOT_PRIMARY.and(C::RETRIABLE)),
    row(10334, "BSONObjectTooLarge"),
    row(11000, "DuplicateKey"),
    with(11600, "InterruptedAtShutdown", C::INTERRUPTION.and(C::SHUTDOWN).and(C::RETRIABLE)),
    with(11601, "Interrupted", C::INTERRUPTION),
    with(11602, "InterruptedDueToReplStateChange", C::INTERRUPTION.and(C::NOT_PRIMARY).and(C::RETRIABLE)),
    row(13113, "MergeStageNoMatchingDocument"),
    row(13388, "StaleConfig"),
    renamed(13435, "NotMasterNoSlaveOk", "NotPrimaryNoSecondaryOk", C::NOT_PRIMARY.and(C::RETRIABLE)),
    renamed(13436, "NotMasterOrSecondary", "NotPrimaryOrSecondary", C::NOT_PRIMARY.and(C::RETRIABLE)),
    row(14031, "OutOfDiskSpace"),
    row(17280, "OBSOLETE_KeyTooLong"),
    with(46841, "ClientMarkedKilled", C::INTERRUPTION),
    renamed(50768, "Location50768", "NotARetryableWriteCommand", C::NONE),
];

/// The row of `code`, if the code has a name.
pub fn lookup(code: i32) -> Option<&'static CodeRow> {
    CODES.binary_search_by_key(&code, |row| row.code).ok().map(|at| &CODES[at])
}

/// The categories of `code`.
pub fn categories(code: i32) -> Categories {
    lookup(code).map_or(Categories::NONE, |row| row.categories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_and_unique() {
        assert!(CODES.windows(2).all(|pair| pair[0].code < pair[1].code));
    }

    #[test]
    fn the_retriable_codes_of_4_4_are_the_twelve_of_the_facts() {
        let late = [134, 462];
        let retriable: Vec<_> = CODES
            .iter()
            .filter(|row| row.categories.has(C::RETRIABLE))
            .map(|row| row.code)
            .filter(|code| !late.contains(code))
            .collect();
        assert_eq!(retriable, [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436]);
    }
}
