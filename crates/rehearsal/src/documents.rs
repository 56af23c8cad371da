//! Documents of a scenario file as BSON.

use backfire_model::scenario::{EXECUTION_PLACEHOLDER, RECORD_PLACEHOLDER};
use backfire_model::{Execution, RecordId};
use bson::{Bson, DateTime, Document};
use toml::{Table, Value};

/// A document with the record and the number of the execution filled in.
pub fn document(table: &Table, record: RecordId, execution: Execution) -> Document {
    table.iter().map(|(name, value)| (name.clone(), bson(value, record, execution))).collect()
}

fn bson(value: &Value, record: RecordId, execution: Execution) -> Bson {
    match value {
        Value::String(text) if text == RECORD_PLACEHOLDER => Bson::String(record.to_string()),
        Value::String(text) if text == EXECUTION_PLACEHOLDER => Bson::Int32(execution.0 as i32),
        Value::String(text) => Bson::String(text.clone()),
        Value::Integer(number) => i32::try_from(*number).map_or(Bson::Int64(*number), Bson::Int32),
        Value::Float(number) => Bson::Double(*number),
        Value::Boolean(flag) => Bson::Boolean(*flag),
        Value::Datetime(datetime) => DateTime::parse_rfc3339_str(datetime.to_string())
            .map_or_else(|_| Bson::String(datetime.to_string()), Bson::DateTime),
        Value::Array(values) => Bson::Array(values.iter().map(|value| bson(value, record, execution)).collect()),
        Value::Table(table) => Bson::Document(document(table, record, execution)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn the_placeholder_becomes_the_number() {
        let table: Table = toml::from_str(
            "a = 1\nb = 5000000000\nc = \"$execution\"\nd = { e = [true, 1.5, \"x\"] }\nf = \"$record\"",
        )
        .unwrap();
        let expected = doc! { "a": 1, "b": 5_000_000_000_i64, "c": 3, "d": { "e": [true, 1.5, "x"] }, "f": "2-17" };
        assert_eq!(document(&table, RecordId { partition: 2, offset: 17 }, Execution(3)), expected);
    }
}
