//! `distinct`.

use bson::{Bson, Document, doc};

use backfire_model::Namespace;

use crate::error::Result;
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::options::options;
use super::{Execute, Request, add_raw_data};

/// The different values of a field. See [`crate::Collection::distinct`].
pub struct Distinct {
    pub(crate) namespace: Namespace,
    pub(crate) field: String,
    pub(crate) filter: Document,
}

options!(Distinct: collation, comment, hint, max_time, raw_data, read_concern, read_preference);

impl Execute for Distinct {
    type Output = Vec<Bson>;

    async fn execute(self, mut request: Request) -> Result<Self::Output> {
        let mut call = request.start()?;
        let (read_concern, preference) = (request.scope.read_concern.clone(), request.read_preference());
        let Request { options, .. } = request;
        let Namespace { db, coll } = self.namespace;
        let plan = Plan::new(Operation::Read, db, Criteria::Read(preference), move |wire_version| {
            let mut body = doc! {"distinct": &coll, "key": &self.field, "query": &self.filter};
            options.copy_into(&mut body, &["collation", "comment", "hint"]);
            add_raw_data(&options, wire_version, &mut body);
            Ok(body)
        });
        let mut reply = plan.with_read_concern(read_concern).run(&mut call).await?;
        match reply.document.remove("values") {
            Some(Bson::Array(values)) => Ok(values),
            _ => Ok(Vec::new()),
        }
    }
}
