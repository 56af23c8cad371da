//! The named things of a test: clients and what is made from them, and saved results.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backfire_driver::{
    ClientSession, Collection, Cursor, Database, ReadConcern, ReadPreference, SessionOptions, TransactionOptions,
    WriteConcern,
};
use bson::{Bson, Document};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::client::ClientEntity;
use super::thread::Thread;
use crate::failure::{Checked, Failure, fail};
use crate::fields::Fields;

/// A named thing. Clones are the same thing.
#[derive(Clone)]
pub enum Entity {
    /// A client.
    Client(Arc<ClientEntity>),
    /// A database.
    Database(Database),
    /// A collection.
    Collection(Collection),
    /// A session.
    Session(SessionEntity),
    /// A cursor.
    Cursor(Arc<AsyncMutex<Cursor>>),
    /// Something that executes operations beside the test.
    Thread(Arc<Thread>),
    /// A value.
    Value(Bson),
    /// A GridFS bucket: it can be made, but there is nothing to do with it.
    Bucket,
}

impl Entity {
    fn kind(&self) -> &'static str {
        match self {
            Self::Client(_) => "client",
            Self::Database(_) => "database",
            Self::Collection(_) => "collection",
            Self::Session(_) => "session",
            Self::Cursor(_) => "cursor",
            Self::Thread(_) => "thread",
            Self::Value(_) => "value",
            Self::Bucket => "bucket",
        }
    }
}

/// A session. Tests ask for its id after its end, too. Clones are the same session.
#[derive(Clone)]
pub struct SessionEntity {
    /// The session.
    pub session: ClientSession,
    last_lsid: Arc<Mutex<Option<Document>>>,
}

impl SessionEntity {
    fn new(session: ClientSession) -> Self {
        Self { session, last_lsid: Arc::default() }
    }

    fn lsid(&self) -> Checked<Document> {
        match self.last_lsid.lock().clone() {
            Some(lsid) => Ok(lsid),
            None => self.session.lsid_document().map_err(Failure::new),
        }
    }

    /// Ends the session.
    pub fn end(&self) {
        let mut last_lsid = self.last_lsid.lock();
        // Without an id, the session has ended before.
        if let Ok(lsid) = self.session.lsid_document() {
            *last_lsid = Some(lsid);
        }
        self.session.end();
    }
}

/// All things of a test, by name.
#[derive(Default)]
pub struct Entities(Mutex<HashMap<String, Entity>>);

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident, $variant:ident, $type:ty;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// When there is none of this name, or it is something else.
        pub fn $name(&self, id: &str) -> Checked<$type> {
            match self.get(id)? {
                Entity::$variant(entity) => Ok(entity),
                other => fail!("'{id}' is a {}", other.kind()),
            }
        })*
    };
}

impl Entities {
    getters! {
        /// A client.
        client, Client, Arc<ClientEntity>;
        /// A database.
        database, Database, Database;
        /// A session.
        session, Session, SessionEntity;
        /// A thread.
        thread, Thread, Arc<Thread>;
        /// A value.
        value, Value, Bson;
    }

    /// What is called `id`.
    ///
    /// # Errors
    /// When nothing is.
    pub fn get(&self, id: &str) -> Checked<Entity> {
        self.0.lock().get(id).cloned().ok_or_else(|| Failure::new(format!("there is no entity '{id}'")))
    }

    /// A session's id as commands carry it.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn lsid(&self, session: &str) -> Checked<Document> {
        self.session(session)?.lsid()
    }

    /// Gives something a name.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn add(&self, id: String, entity: Entity) -> Checked {
        match self.0.lock().entry(id) {
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(entity);
                Ok(())
            }
            std::collections::hash_map::Entry::Occupied(slot) => fail!("there is an entity '{}' already", slot.key()),
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Entity> {
        self.0.lock().values().cloned().collect()
    }

    /// Makes a database, a collection, a session or a bucket from an entity that exists.
    ///
    /// # Errors
    /// When its description is not known in all parts.
    pub fn create(&self, kind: &str, mut fields: Fields) -> Checked {
        let id: String = fields.required("id")?;
        let entity = match kind {
            "database" => {
                let client = self.client(&fields.required::<String>("client")?)?;
                let database = client.client.database(fields.required::<String>("databaseName")?);
                let options = Options::read(&mut fields, "databaseOptions")?;
                Entity::Database(options.on_database(database))
            }
            "collection" => {
                let database = self.database(&fields.required::<String>("database")?)?;
                let collection = database.collection(fields.required::<String>("collectionName")?);
                let options = Options::read(&mut fields, "collectionOptions")?;
                Entity::Collection(options.on_collection(collection))
            }
            "session" => {
                let client = self.client(&fields.required::<String>("client")?)?;
                let options = self.session_options(fields.optional("sessionOptions")?.unwrap_or_default())?;
                Entity::Session(SessionEntity::new(client.client.start_session(options).map_err(Failure::new)?))
            }
            "bucket" => {
                self.database(&fields.required::<String>("database")?)?;
                Entity::Bucket
            }
            "thread" => Entity::Thread(Arc::default()),
            _ => fail!("entities of kind '{kind}' are not known"),
        };
        fields.done()?;
        self.add(id, entity)
    }

    fn session_options(&self, options: Document) -> Checked<SessionOptions> {
        let mut fields = Fields::new("sessionOptions", options);
        let transaction: Option<Document> = fields.optional("defaultTransactionOptions")?;
        let mut transaction = Fields::new("defaultTransactionOptions", transaction.unwrap_or_default());
        let default_transaction = transaction_options(&mut transaction)?;
        transaction.done()?;
        let snapshot_time = match fields.optional::<String>("snapshotTime")? {
            None => None,
            Some(id) => match self.value(&id)? {
                Bson::Timestamp(time) => Some(time),
                other => fail!("snapshotTime: {other} is not a timestamp"),
            },
        };
        let options = SessionOptions {
            causal_consistency: fields.optional("causalConsistency")?,
            snapshot: fields.optional("snapshot")?.unwrap_or(false),
            snapshot_time,
            default_timeout: fields.optional("defaultTimeoutMS")?.map(Duration::from_millis),
            default_transaction,
        };
        fields.done()?;
        Ok(options)
    }
}

/// Takes the options of a transaction out of some fields.
///
/// # Errors
/// When the driver does not take one of them.
pub fn transaction_options(fields: &mut Fields) -> Checked<TransactionOptions> {
    let Concerns { read_concern, write_concern, read_preference } = Concerns::read(fields)?;
    let max_commit_time = fields.optional("maxCommitTimeMS")?.map(Duration::from_millis);
    Ok(TransactionOptions { read_concern, write_concern, read_preference, max_commit_time })
}

/// What databases, collections and transactions all take.
struct Concerns {
    read_concern: Option<ReadConcern>,
    write_concern: Option<WriteConcern>,
    read_preference: Option<ReadPreference>,
}

impl Concerns {
    fn read(fields: &mut Fields) -> Checked<Self> {
        let read_concern: Option<Document> = fields.optional("readConcern")?;
        let write_concern: Option<Document> = fields.optional("writeConcern")?;
        let read_preference: Option<Document> = fields.optional("readPreference")?;
        Ok(Self {
            read_concern: read_concern.as_ref().map(ReadConcern::from_document).transpose().map_err(Failure::new)?,
            write_concern: write_concern.as_ref().map(WriteConcern::from_document).transpose().map_err(Failure::new)?,
            read_preference: read_preference
                .as_ref()
                .map(ReadPreference::from_document)
                .transpose()
                .map_err(Failure::new)?,
        })
    }
}

/// The options of databases and collections.
struct Options {
    read_concern: Option<ReadConcern>,
    write_concern: Option<WriteConcern>,
    read_preference: Option<ReadPreference>,
    timeout: Option<Duration>,
}

impl Options {
    fn read(fields: &mut Fields, name: &str) -> Checked<Self> {
        let mut fields = Fields::new(name, fields.optional(name)?.unwrap_or_default());
        let Concerns { read_concern, write_concern, read_preference } = Concerns::read(&mut fields)?;
        let timeout = fields.optional("timeoutMS")?.map(Duration::from_millis);
        let options = Self { read_concern, write_concern, read_preference, timeout };
        fields.done()?;
        Ok(options)
    }

    fn on_database(self, mut database: Database) -> Database {
        if let Some(concern) = self.read_concern {
            database = database.with_read_concern(concern);
        }
        if let Some(concern) = self.write_concern {
            database = database.with_write_concern(concern);
        }
        if let Some(preference) = self.read_preference {
            database = database.with_read_preference(preference);
        }
        match self.timeout {
            Some(timeout) => database.with_timeout(timeout),
            None => database,
        }
    }

    fn on_collection(self, mut collection: Collection) -> Collection {
        if let Some(concern) = self.read_concern {
            collection = collection.with_read_concern(concern);
        }
        if let Some(concern) = self.write_concern {
            collection = collection.with_write_concern(concern);
        }
        if let Some(preference) = self.read_preference {
            collection = collection.with_read_preference(preference);
        }
        match self.timeout {
            Some(timeout) => collection.with_timeout(timeout),
            None => collection,
        }
    }
}
