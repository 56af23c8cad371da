//! `getMore`.

use std::time::Duration;

use backfire_model::Namespace;
use tokio::time::{Instant, timeout_at};

use super::batch::{self, Batch, Shape};
use super::{CommandSpec, Invocation, Run, Running, idl};
use crate::counters::bump;
use crate::cursors::{Cursor, Tails};
use crate::error::{CommandError, Result};
use crate::failpoints::table::FAIL_GET_MORE_AFTER_CURSOR_CHECKOUT;
use crate::ops::OpKind;
use crate::value::{View, text};

/// `{getMore: id, collection: name, batchSize, maxTimeMS}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["getMore"],
    doc: "reads on from a cursor",
    kind: OpKind::GetMore,
    in_transactions: true,
    dies_with_client: false,
    parse: |request, _| {
        let whole = || text::document(request.document());
        let id = match request.get("getMore") {
            Some(View::Int64(id)) => id,
            _ => {
                return Err(CommandError::type_mismatch(format!(
                    "Field 'getMore' must be of type long in: {}",
                    whole()
                )));
            }
        };
        if id == 0 {
            return Err(CommandError::bad_value("Cursor id for getMore must be non-zero"));
        }
        let collection = match request.get("collection") {
            Some(View::String(collection)) => collection,
            _ => {
                return Err(CommandError::type_mismatch(format!(
                    "Field 'collection' must be of type string in: {}",
                    whole()
                )));
            }
        };
        let ns = Namespace::new(request.database()?, collection);
        let batch_size = match request.get("batchSize") {
            None => None,
            Some(size) => match idl::whole_number(size) {
                Some(size @ 0..) => Some(size as usize).filter(|size| *size > 0),
                _ => {
                    let got = text::value(size);
                    return Err(CommandError::bad_value(format!(
                        "Batch size for getMore must be positive, but received: {got}"
                    )));
                }
            },
        };
        // On a cursor that waits, `maxTimeMS` is how long (facts/server.md 3.1).
        let max_time = match request.get("maxTimeMS").and_then(idl::whole_number) {
            Some(ms @ 1..) => u64::try_from(ms).ok().map(Duration::from_millis),
            _ => None,
        };
        Ok(Box::new(GetMore { id, ns, batch_size, max_time }))
    },
    ..CommandSpec::READ
};

struct GetMore {
    id: i64,
    ns: Namespace,
    batch_size: Option<usize>,
    max_time: Option<Duration>,
}

/// How long a cursor that waits does so when the client does not say.
const AWAIT_DEFAULT: Duration = Duration::from_secs(1);

impl GetMore {
    /// Reads a batch; at the end of what a waiting cursor tails, waits for something new.
    async fn read(&self, run: &Run<'_>, cursor: &mut Cursor) -> Result<Batch> {
        let limit = self.batch_size.unwrap_or(usize::MAX);
        let waits = cursor.source.tails() == Tails::AndWaits;
        let until = Instant::now() + self.max_time.unwrap_or(AWAIT_DEFAULT);
        loop {
            let arrival = waits.then(|| run.shared().arrivals.next());
            let batch = batch::read(run, &mut cursor.source, &mut cursor.pushed_back, limit).await?;
            let Some(arrival) = arrival.filter(|_| batch.count == 0) else { return Ok(batch) };
            if run.op.wait(timeout_at(until, arrival)).await?.is_err() {
                return Ok(batch);
            }
        }
    }
}

impl Invocation for GetMore {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            bump(&shared.counters.ops.getmore);
            {
                let mut view = run.op.view();
                view.ns = self.ns.to_string();
                view.cursor = Some(self.id);
            }
            let (owner, transaction) = (run.request.session_owner, run.op.transaction_number());
            let mut cursor = shared.cursors.check_out(self.id, &self.ns.to_string(), owner, transaction)?;
            if let Some(entered) = shared.passes(FAIL_GET_MORE_AFTER_CURSOR_CHECKOUT) {
                shared.cursors.check_in(self.id, None);
                let code = entered.data.get("errorCode").map(View::from).and_then(idl::whole_number).unwrap_or(1);
                let text = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
                return Err(CommandError::new(code as i32, text).into());
            }
            if self.max_time.is_some() && cursor.source.tails() != Tails::AndWaits {
                shared.cursors.check_in(self.id, Some(cursor));
                let text = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
                return Err(CommandError::bad_value(text).into());
            }
            let read = self.read(&run, &mut cursor).await;
            let batch = match read {
                Ok(batch) => batch,
                Err(error) => {
                    shared.cursors.check_in(self.id, None);
                    return Err(error.into());
                }
            };
            let over = batch::is_over(&batch, &*cursor.source, cursor.pushed_back.as_ref());
            let id = if over { 0 } else { self.id };
            shared.cursors.check_in(self.id, (!over).then_some(cursor));
            Ok(batch::reply(batch.documents, id, &self.ns.to_string(), Shape::Next, None))
        })
    }
}
