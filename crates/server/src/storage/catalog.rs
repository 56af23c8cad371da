//! Which collections and indexes there are. Kept in a table of the engine, so that it survives with the data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backfire_model::Namespace;
use bson::{Bson, Document, doc};
use parking_lot::RwLock;
use rand::{Rng, RngExt};
use uuid::Uuid;

use super::capped::Capped;
use super::collection::{Collection, Index, WriteError};
use super::record::RecordId;
use super::{Direction, Engine, Key, TableId, Value};
use crate::error::{CommandError, Result};
use crate::query::{Matcher, QueryContext};
use crate::value::index_keys::IndexPattern;
use crate::value::wildcard::Wildcard;
use crate::value::{Collation, View};
use crate::write::validation::Validator;

/// The table of the catalog itself.
pub const CATALOG_TABLE: TableId = TableId(0);
/// The table of the retry history.
pub const HISTORY_TABLE: TableId = TableId(1);
/// The first table that a collection may get.
pub const FIRST_FREE_TABLE: u32 = 2;

/// The collections that a replica-set member has from the start.
const BUILT_IN: [(&str, &str); 4] =
    [("admin", "system.version"), ("config", "transactions"), ("config", "system.sessions"), ("local", "startup_log")];

/// All collections of a server.
#[derive(Debug)]
pub struct Catalog {
    engine: Arc<dyn Engine>,
    collections: RwLock<BTreeMap<Namespace, Arc<Collection>>>,
    views: RwLock<BTreeMap<Namespace, crate::views::View>>,
}

impl Catalog {
    /// Reads the catalog from the engine, and adds what every server has.
    pub fn new(engine: Arc<dyn Engine>, rng: &mut impl Rng) -> Self {
        let catalog = Self { engine, collections: RwLock::default(), views: RwLock::default() };
        catalog.load();
        for (db, coll) in BUILT_IN {
            let uuid = uuid::Builder::from_random_bytes(rng.random()).into_uuid();
            // Another error than "exists already" cannot come from an empty set of options.
            let _ = catalog.create(&Namespace::new(db, coll), doc! {}, uuid);
        }
        catalog
    }

    fn load(&self) {
        use std::ops::Bound::Unbounded;
        let snapshot = self.engine.snapshot();
        let mut entries = Vec::new();
        snapshot.scan(CATALOG_TABLE, Unbounded, Unbounded, Direction::Forward, usize::MAX, &mut entries);
        for (key, value) in entries {
            let stored = Document::from_reader(&*value).ok();
            let ns = std::str::from_utf8(&key).ok().and_then(Namespace::parse);
            let view = ns.as_ref().zip(stored.as_ref()).and_then(|(ns, stored)| {
                crate::views::View::from_options(ns, stored.get_document("view").ok()?).ok().flatten()
            });
            if let Some(view) = view {
                self.views.write().insert(view.ns.clone(), view);
                continue;
            }
            if let Some(collection) = ns.zip(stored).and_then(|(ns, stored)| {
                let records = TableId(stored.get_i64("records").ok()? as u32);
                let uuid = Uuid::parse_str(stored.get_str("uuid").ok()?).ok()?;
                let options = stored.get_document("options").ok()?.clone();
                let indexes = stored.get_array("indexes").ok()?.iter().filter_map(load_index).collect();
                let last = Collection::last_record(&*snapshot, records);
                let table = stored.get_i64("capped").ok().map(|table| TableId(table as u32));
                let capped = table.and_then(|table| Capped::from_options(&options, table));
                let validator = Validator::from_options(&options).ok().flatten();
                let collation = collation_of(&options).ok().flatten();
                let collection = Collection::new(ns, uuid, options, records, indexes, last);
                Some(collection.with_capped(capped).with_validator(validator).with_collation(collation))
            }) {
                self.collections.write().insert(collection.ns.clone(), Arc::new(collection));
            } else {
                tracing::error!(key = %String::from_utf8_lossy(&key), "damaged catalog entry left out");
            }
        }
    }

    fn store(&self, collection: &Collection) {
        let indexes: Vec<Bson> = collection
            .indexes()
            .iter()
            .map(|index| Bson::Document(doc! { "spec": index.spec.clone(), "table": i64::from(index.table.0) }))
            .collect();
        let mut entry = doc! {
            "uuid": collection.uuid.to_string(),
            "options": collection.options.read().clone(),
            "records": i64::from(collection.records.0),
            "indexes": indexes,
        };
        if let Some(capped) = &collection.capped {
            entry.insert("capped", i64::from(capped.table.0));
        }
        self.write(&collection.ns, entry.to_vec().ok());
    }

    /// Keeps changed options of a collection.
    pub fn options_changed(&self, collection: &Collection) {
        self.store(collection);
    }

    fn write(&self, ns: &Namespace, value: Option<Vec<u8>>) {
        let key = Key::from_slice(ns.to_string().as_bytes());
        // Changes of the catalog exclude each other by locks, so there is nobody to conflict with.
        loop {
            let mut transaction = self.engine.begin();
            if transaction.write(CATALOG_TABLE, key.clone(), value.as_deref().map(Value::from)).is_ok() {
                transaction.commit();
                return;
            }
        }
    }

    /// The collection called `ns`.
    pub fn get(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        self.collections.read().get(ns).cloned()
    }

    /// Creates a collection with its index on `_id`.
    ///
    /// # Errors
    /// 48 when it exists.
    pub fn create(&self, ns: &Namespace, options: Document, uuid: Uuid) -> Result<Arc<Collection>> {
        let collection = self.prepare(ns, options, uuid)?;
        self.adopt(&collection)?;
        Ok(collection)
    }

    /// Makes a collection with its index on `_id`, and does not put it into the catalog yet: see [`Catalog::adopt`].
    ///
    /// # Errors
    /// When there is a view of that name, or the options are not valid.
    pub fn prepare(&self, ns: &Namespace, options: Document, uuid: Uuid) -> Result<Arc<Collection>> {
        if self.views.read().contains_key(ns) {
            return Err(crate::views::refused(ns));
        }
        let mut spec = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
        if let Ok(collation) = options.get_document("collation") {
            spec.insert("collation", collation.clone());
        }
        let id_index = index_from(spec, self.engine.allocate_table())?;
        let records = self.engine.allocate_table();
        let capped = Capped::from_options(&options, self.engine.allocate_table());
        let (validator, collation) = (Validator::from_options(&options)?, collation_of(&options)?);
        let collection = Collection::new(ns.clone(), uuid, options, records, vec![Arc::new(id_index)], 0);
        let collection = collection.with_capped(capped).with_validator(validator).with_collation(collation);
        Ok(Arc::new(collection))
    }

    /// Puts a prepared collection into the catalog.
    ///
    /// # Errors
    /// 48 when there is one of that name.
    pub fn adopt(&self, collection: &Arc<Collection>) -> Result<()> {
        let ns = &collection.ns;
        let mut collections = self.collections.write();
        if collections.contains_key(ns) {
            return Err(CommandError::new(48, format!("Collection already exists. NS: {ns}")));
        }
        self.store(collection);
        collections.insert(ns.clone(), Arc::clone(collection));
        Ok(())
    }

    /// The collection called `ns`, created without options if it is not there. `uuid` is asked only then.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn get_or_create(&self, ns: &Namespace, uuid: impl FnOnce() -> Uuid) -> Result<Arc<Collection>> {
        if let Some(collection) = self.get(ns) {
            return Ok(collection);
        }
        match self.create(ns, doc! {}, uuid()) {
            Err(error) if error.code == 48 => self.get(ns).ok_or(error),
            other => other,
        }
    }

    /// The view called `ns`.
    pub fn view(&self, ns: &Namespace) -> Option<crate::views::View> {
        self.views.read().get(ns).cloned()
    }

    /// Whether `ns` is a view.
    pub fn is_view(&self, ns: &Namespace) -> bool {
        self.views.read().contains_key(ns)
    }

    /// The views of a database, by name.
    pub fn views_of(&self, db: &str) -> Vec<crate::views::View> {
        self.views.read().values().filter(|view| view.ns.db == db).cloned().collect()
    }

    /// Creates a view.
    ///
    /// # Errors
    /// 48 when there is something of that name.
    pub fn create_view(&self, view: crate::views::View) -> Result<()> {
        let (collections, mut views) = (self.collections.read(), self.views.write());
        if collections.contains_key(&view.ns) {
            return Err(CommandError::new(48, format!("Collection already exists. NS: {}", view.ns)));
        }
        if views.contains_key(&view.ns) {
            return Err(CommandError::new(48, format!("A view already exists. NS: {}", view.ns)));
        }
        self.write(&view.ns, doc! { "view": view.options() }.to_vec().ok());
        views.insert(view.ns.clone(), view);
        Ok(())
    }

    /// Removes a view; says whether there was one.
    pub fn drop_view(&self, ns: &Namespace) -> bool {
        let there = self.views.write().remove(ns).is_some();
        if there {
            self.write(ns, None);
        }
        there
    }

    /// Gives a collection another name. What has that name goes.
    ///
    /// # Errors
    /// 26 when there is no such collection.
    pub fn rename(&self, from: &Namespace, to: &Namespace) -> Result<Arc<Collection>> {
        let Some(old) = self.get(from) else {
            return Err(CommandError::new(26, format!("Source collection {from} does not exist")));
        };
        self.drop(to);
        let renamed = Arc::new(old.renamed(to.clone()));
        let mut collections = self.collections.write();
        collections.remove(from);
        collections.insert(to.clone(), Arc::clone(&renamed));
        drop(collections);
        self.write(from, None);
        self.store(&renamed);
        Ok(renamed)
    }

    /// Removes a collection and its data; returns what was removed.
    pub fn drop(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        let collection = self.collections.write().remove(ns)?;
        self.write(ns, None);
        self.engine.drop_table(collection.records);
        if let Some(capped) = &collection.capped {
            self.engine.drop_table(capped.table);
        }
        for index in collection.indexes().iter() {
            self.engine.drop_table(index.table);
        }
        Some(collection)
    }

    /// Adds an index to an empty collection that is prepared and not yet in the catalog: see [`Catalog::adopt`].
    ///
    /// # Errors
    /// When the specification cannot be read.
    pub fn prepare_index(&self, collection: &Collection, spec: Document) -> Result<()> {
        let index = Arc::new(index_from(spec, self.engine.allocate_table())?);
        let mut indexes = (*collection.indexes()).clone();
        indexes.push(index);
        collection.set_indexes(indexes);
        Ok(())
    }

    /// Adds an index and fills it.
    ///
    /// # Errors
    /// 11000 when the documents that are there have a key twice; 171 when one cannot be indexed.
    pub fn create_index(&self, collection: &Collection, spec: Document) -> Result<()> {
        let index = Arc::new(index_from(spec, self.engine.allocate_table())?);
        let fresh = Collection::new(
            collection.ns.clone(),
            collection.uuid,
            doc! {},
            collection.records,
            vec![Arc::clone(&index)],
            0,
        );
        if let Err(error) = self.fill(&fresh) {
            self.engine.drop_table(index.table);
            return Err(error);
        }
        let mut indexes = (*collection.indexes()).clone();
        indexes.push(index);
        collection.set_indexes(indexes);
        self.store(collection);
        Ok(())
    }

    /// Writes the entries of all documents into the one index of `fresh`.
    fn fill(&self, fresh: &Collection) -> Result<()> {
        use std::ops::Bound::{Excluded, Unbounded};
        const BATCH: usize = 1000;
        let mut after: Option<Key> = None;
        loop {
            let mut batch = Vec::new();
            let lower = after.as_ref().map_or(Unbounded, |key| Excluded(key.as_slice()));
            self.engine.snapshot().scan(fresh.records, lower, Unbounded, Direction::Forward, BATCH, &mut batch);
            let Some((last, _)) = batch.last() else { return Ok(()) };
            after = Some(last.clone());
            let mut transaction = self.engine.begin();
            for (key, value) in &batch {
                let Some(record) = RecordId::from_bytes(key) else { continue };
                fresh.add_entries(&mut *transaction, record, crate::net::request::raw(value)).map_err(|error| {
                    match error {
                        WriteError::Failed(error) => error,
                        WriteError::Conflict => {
                            CommandError::new(112, "WriteConflict error: an index build met a writer")
                        }
                    }
                })?;
            }
            transaction.commit();
        }
    }

    /// Gives an index another specification with the same keys.
    ///
    /// # Errors
    /// When it is not one.
    pub fn change_index(&self, collection: &Collection, name: &str, spec: Document) -> Result<()> {
        let mut indexes = (*collection.indexes()).clone();
        if let Some(index) = indexes.iter_mut().find(|index| index.name == name) {
            let changed = index_from(spec, index.table)?;
            changed.multikey.store(index.multikey.load(Ordering::Relaxed), Ordering::Relaxed);
            *index = Arc::new(changed);
        }
        collection.set_indexes(indexes);
        self.store(collection);
        Ok(())
    }

    /// Removes an index.
    pub fn drop_index(&self, collection: &Collection, name: &str) {
        let (dropped, kept): (Vec<_>, Vec<_>) =
            collection.indexes().iter().cloned().partition(|index| index.name == name);
        collection.set_indexes(kept);
        self.store(collection);
        for index in dropped {
            self.engine.drop_table(index.table);
        }
    }

    /// The collections of a database, by name.
    pub fn collections_of(&self, db: &str) -> Vec<Arc<Collection>> {
        self.collections.read().values().filter(|collection| collection.ns.db == db).cloned().collect()
    }

    /// The names of all databases that have a collection.
    pub fn databases(&self) -> BTreeSet<String> {
        let views: BTreeSet<_> = self.views.read().keys().map(|ns| ns.db.clone()).collect();
        self.collections.read().keys().map(|ns| ns.db.clone()).chain(views).collect()
    }

    /// How many collections there are.
    pub fn len(&self) -> usize {
        self.collections.read().len()
    }

    /// Whether there is no collection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The collation in a collection's options.
fn collation_of(options: &Document) -> Result<Option<Collation>> {
    options.get_document("collation").map_or(Ok(None), Collation::parse)
}

fn load_index(stored: &Bson) -> Option<Arc<Index>> {
    let stored = stored.as_document()?;
    let table = TableId(stored.get_i64("table").ok()? as u32);
    let index = index_from(stored.get_document("spec").ok()?.clone(), table).ok()?;
    // Nobody has kept whether there were arrays, and an index that has them must not be taken for one that has not.
    index.multikey.store(true, Ordering::Relaxed);
    Some(Arc::new(index))
}

/// An index from its specification, which was checked by the command that brought it.
fn index_from(spec: Document, table: TableId) -> Result<Index> {
    let flag = |name: &str| spec.get(name).is_some_and(|value| View::from(value).is_true());
    let collation = match spec.get_document("collation") {
        Ok(collation) => Collation::parse(collation)?,
        Err(_) => None,
    };
    let key = spec.get_document("key").cloned().unwrap_or_default();
    let name = spec.get_str("name").unwrap_or_default().to_owned();
    let partial = match spec.get_document("partialFilterExpression") {
        Ok(filter) => {
            let raw = crate::value::view::to_raw(filter)?;
            // A partial filter has no expressions, so there is no time in it.
            let context = QueryContext::new(bson::DateTime::from_millis(0)).with_collation(collation.clone());
            Some(Matcher::parse(&raw, &context)?)
        }
        Err(_) => None,
    };
    let wildcard = Wildcard::of(&key, spec.get_document("wildcardProjection").ok());
    let pattern = IndexPattern::new(&key, flag("sparse"), collation).with_wildcard(wildcard);
    Ok(Index {
        unique: name == "_id_" || flag("unique"),
        name,
        pattern,
        partial,
        multikey: AtomicBool::new(false),
        table,
        spec,
    })
}
