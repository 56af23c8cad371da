//! `$and`, `$or`, `$not`.

use bson::Bson;

use super::Expression;
use super::lent::{Val, view};
use super::table::{ANY, Operator, eager, lazy};
use super::variables::Frame;
use crate::error::Result;
use crate::value::View;

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    lazy("$and", 0, ANY, |arguments, frame| all(arguments, frame, true)),
    lazy("$or", 0, ANY, |arguments, frame| all(arguments, frame, false)),
    eager("$not", 1, 1, |_, values| {
        let truth = values.first().and_then(view).is_some_and(View::is_true);
        Ok(Some(Bson::Boolean(!truth)))
    }),
];

/// `$and` while operands are `going`, `$or` while they are not.
fn all(arguments: &[Expression], frame: &mut Frame<'_>, going: bool) -> Result<Val> {
    for argument in arguments {
        if argument.eval_view(frame)?.is_true() != going {
            return Ok(Some(Bson::Boolean(!going)));
        }
    }
    Ok(Some(Bson::Boolean(going)))
}
