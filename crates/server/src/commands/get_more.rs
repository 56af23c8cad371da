//! `getMore`.

use backfire_model::Namespace;

use super::batch::{self, Shape};
use super::{CommandSpec, Invocation, Run, Running, idl};
use crate::counters::bump;
use crate::error::CommandError;
use crate::failpoints::table::FAIL_GET_MORE_AFTER_CURSOR_CHECKOUT;
use crate::ops::OpKind;
use crate::value::{View, text};

/// `{getMore: id, collection: name, batchSize, maxTimeMS}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["getMore"],
    doc: "reads on from a cursor",
    kind: OpKind::GetMore,
    dies_with_client: false,
    parse: |request, _| {
        let whole = || text::document(request.document());
        let id = match request.get("getMore") {
            Some(View::Int64(id)) => id,
            _ => return Err(CommandError::type_mismatch(format!("Field 'getMore' must be of type long in: {}", whole()))),
        };
        if id == 0 {
            return Err(CommandError::bad_value("Cursor id for getMore must be non-zero"));
        }
        let collection = match request.get("collection") {
            Some(View::String(collection)) => collection,
            _ => return Err(CommandError::type_mismatch(format!("Field 'collection' must be of type string in: {}", whole()))),
        };
        let ns = Namespace::new(request.database()?, collection);
        let batch_size = match request.get("batchSize") {
            None => None,
            Some(size) => match idl::whole_number(size) {
                Some(size @ 0..) => Some(size as usize).filter(|size| *size > 0),
                _ => {
                    let got = text::value(size);
                    return Err(CommandError::bad_value(format!("Batch size for getMore must be positive, but received: {got}")));
                }
            },
        };
        Ok(Box::new(GetMore { id, ns, batch_size }))
    },
    ..CommandSpec::READ
};

struct GetMore {
    id: i64,
    ns: Namespace,
    batch_size: Option<usize>,
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
            let mut cursor = shared.cursors.check_out(self.id, &self.ns.to_string())?;
            if let Some(entered) = shared.passes(FAIL_GET_MORE_AFTER_CURSOR_CHECKOUT) {
                shared.cursors.check_in(self.id, None);
                let code = entered.data.get("errorCode").map(View::from).and_then(idl::whole_number).unwrap_or(1);
                let text = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
                return Err(CommandError::new(code as i32, text).into());
            }
            let limit = self.batch_size.unwrap_or(usize::MAX);
            let read = batch::read(&run, &mut cursor.source, &mut cursor.pushed_back, limit).await;
            let batch = match read {
                Ok(batch) => batch,
                Err(error) => {
                    shared.cursors.check_in(self.id, None);
                    return Err(error.into());
                }
            };
            let id = if batch.at_end { 0 } else { self.id };
            shared.cursors.check_in(self.id, (!batch.at_end).then_some(cursor));
            Ok(batch::reply(batch.documents, id, &self.ns.to_string(), Shape::Next, None))
        })
    }
}
