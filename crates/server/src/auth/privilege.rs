//! Privileges: actions on resources.

use backfire_model::Namespace;

macro_rules! actions {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// What a privilege allows, by the names of the manual's "Privilege Actions".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each is what its name says")]
        pub enum Action {
            $($name),*
        }

        impl Action {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text),*
                }
            }
        }
    };
}

actions! {
    BypassDocumentValidation = "bypassDocumentValidation",
    ChangeCustomData = "changeCustomData",
    ChangePassword = "changePassword",
    CollMod = "collMod",
    CollStats = "collStats",
    CreateCollection = "createCollection",
    CreateIndex = "createIndex",
    CreateUser = "createUser",
    DbStats = "dbStats",
    DropCollection = "dropCollection",
    DropDatabase = "dropDatabase",
    DropIndex = "dropIndex",
    DropUser = "dropUser",
    EnableProfiler = "enableProfiler",
    Find = "find",
    GetCmdLineOpts = "getCmdLineOpts",
    GetDefaultRwConcern = "getDefaultRWConcern",
    GetLog = "getLog",
    GetParameter = "getParameter",
    GrantRole = "grantRole",
    HostInfo = "hostInfo",
    IndexStats = "indexStats",
    Inprog = "inprog",
    Insert = "insert",
    KillAnySession = "killAnySession",
    KillCursors = "killCursors",
    KillOp = "killop",
    ListCollections = "listCollections",
    ListDatabases = "listDatabases",
    ListIndexes = "listIndexes",
    Remove = "remove",
    RenameCollectionSameDb = "renameCollectionSameDB",
    ReplSetGetConfig = "replSetGetConfig",
    ReplSetGetStatus = "replSetGetStatus",
    ReplSetStateChange = "replSetStateChange",
    RevokeRole = "revokeRole",
    ServerStatus = "serverStatus",
    SetParameter = "setParameter",
    Update = "update",
    Validate = "validate",
    ViewUser = "viewUser",
}

/// What an action is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A collection.
    Collection(Namespace),
    /// A database as a whole.
    Database(String),
    /// The server.
    Cluster,
}

impl Resource {
    /// The collection `db.name`.
    pub fn collection(db: &str, name: &str) -> Self {
        Self::Collection(Namespace::new(db, name))
    }
}
