//! `find` and `findOne`.

use bson::{Bson, Document, doc};

use backfire_model::Namespace;

use crate::cursor::{Cursor, CursorType};
use crate::error::Result;
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::options::{Options, options};
use super::{Execute, Request, add_raw_data};

/// Finds documents. See [`crate::Collection::find`].
pub struct Find {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
}

options!(Find: allow_disk_use, allow_partial_results, batch_size, collation, comment, cursor_type, hint, let_vars, limit,
    max, max_await_time, max_time, min, no_cursor_timeout, projection, raw_data, read_concern, read_preference,
    return_key, show_record_id, skip, sort, timeout_mode);

impl Execute for Find {
    type Output = Cursor;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        run(self.namespace, self.filter, request).await
    }
}

/// Finds one document. See [`crate::Collection::find_one`].
pub struct FindOne {
    pub(crate) namespace: Namespace,
    pub(crate) filter: Document,
}

options!(FindOne: allow_disk_use, collation, comment, hint, let_vars, max, max_time, min, projection, raw_data,
    read_concern, read_preference, return_key, show_record_id, skip, sort);

impl Execute for FindOne {
    type Output = Option<Document>;

    async fn execute(self, mut request: Request) -> Result<Self::Output> {
        request.options.set("limit", Bson::Int64(-1));
        run(self.namespace, self.filter, request).await?.next().await
    }
}

async fn run(namespace: Namespace, filter: Document, mut request: Request) -> Result<Cursor> {
    let (mut call, rules) = request.start_cursor(request.max_time())?;
    let (read_concern, preference) = (request.scope.read_concern.clone(), request.read_preference());
    let Request { options, .. } = request;
    let cursor_type = rules.cursor_type;
    let Namespace { db, coll } = namespace;
    let plan = Plan::new(Operation::Read, db, Criteria::Read(preference), move |wire_version| {
        let mut body = doc! {"find": &coll, "filter": &filter};
        options.copy_into(&mut body, &["sort", "projection"]);
        if let Some(skip) = options.number("skip").filter(|skip| *skip > 0) {
            body.insert("skip", skip);
        }
        add_sizes(&options, &mut body);
        if cursor_type != CursorType::NonTailable {
            body.insert("tailable", true);
        }
        if cursor_type == CursorType::TailableAwait {
            body.insert("awaitData", true);
        }
        let names = [
            "noCursorTimeout",
            "allowPartialResults",
            "collation",
            "comment",
            "hint",
            "let",
            "max",
            "min",
            "returnKey",
            "showRecordId",
            "allowDiskUse",
        ];
        options.copy_into(&mut body, &names);
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    let reply = plan.with_read_concern(read_concern).run(&mut call).await?;
    Cursor::new(call, reply, rules)
}

/// `limit`, `batchSize` and `singleBatch` as Java derives them: a negative limit is a single batch, and a batch as large
/// as the limit is asked one larger, so that the server need not keep a cursor.
fn add_sizes(options: &Options, body: &mut Document) {
    let limit = options.number("limit").unwrap_or(0);
    let number = |n: i64| i32::try_from(n).map_or(Bson::Int64(n), Bson::Int32);
    if limit != 0 {
        body.insert("limit", number(limit.saturating_abs()));
    }
    if limit < 0 {
        body.insert("singleBatch", true);
    } else if let Some(size) = options.number("batchSize") {
        body.insert("batchSize", number(if size != 0 && size == limit { size + 1 } else { size }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_javas() {
        for (limit, batch_size, expected) in [
            (None, None, doc! {}),
            (Some(4), Some(2), doc! {"limit": 4, "batchSize": 2}),
            (Some(4), Some(4), doc! {"limit": 4, "batchSize": 5}),
            (Some(-1), Some(2), doc! {"limit": 1, "singleBatch": true}),
            (None, Some(0), doc! {"batchSize": 0}),
        ] {
            let (mut options, mut body) = (Options::default(), Document::new());
            for (name, value) in [("limit", limit), ("batchSize", batch_size)] {
                if let Some(value) = value {
                    options.set(name, Bson::Int64(value));
                }
            }
            add_sizes(&options, &mut body);
            assert_eq!(body, expected);
        }
    }
}
