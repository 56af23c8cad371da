//! `$sum`, `$avg`, `$min`, `$max`, `$stdDevPop`, `$stdDevSamp` as expressions over the elements of an array.

use bson::Bson;

use super::lent::Val;
use super::table::{ANY, Call, Operator, eager};
use crate::aggregate::accumulator::{Accumulator, Kind};
use crate::error::Result;

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    eager("$avg", 0, ANY, |call, values| fold(call, values, Kind::Avg)),
    eager("$max", 0, ANY, |call, values| fold(call, values, Kind::Max)),
    eager("$min", 0, ANY, |call, values| fold(call, values, Kind::Min)),
    eager("$stdDevPop", 0, ANY, |call, values| fold(call, values, Kind::StdDevPop)),
    eager("$stdDevSamp", 0, ANY, |call, values| fold(call, values, Kind::StdDevSamp)),
    eager("$sum", 0, ANY, |call, values| fold(call, values, Kind::Sum)),
];

/// One operand that is an array stands for its elements.
fn fold(call: Call<'_>, mut values: Vec<Val>, kind: Kind) -> Result<Val> {
    if let [Some(Bson::Array(array))] = values.as_mut_slice() {
        values = std::mem::take(array).into_iter().map(Some).collect();
    }
    let mut accumulator = Accumulator::new(kind, call.globals.collation.clone());
    for value in values {
        accumulator.add(value)?;
    }
    accumulator.finish()
}
