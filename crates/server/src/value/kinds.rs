//! BSON types: numbers, names, aliases, and their place in the order of values.

use super::View;
use crate::error::{Result, fail};

/// A BSON type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// -1
    MinKey,
    /// 1
    Double,
    /// 2
    String,
    /// 3
    Object,
    /// 4
    Array,
    /// 5
    BinData,
    /// 6
    Undefined,
    /// 7
    ObjectId,
    /// 8
    Bool,
    /// 9
    Date,
    /// 10
    Null,
    /// 11
    Regex,
    /// 12
    DbPointer,
    /// 13
    Code,
    /// 14
    Symbol,
    /// 15
    CodeWithScope,
    /// 16
    Int,
    /// 17
    Timestamp,
    /// 18
    Long,
    /// 19
    Decimal,
    /// 127
    MaxKey,
}

/// One type: its number on the wire, its name and its place in the order of values.
struct Row {
    kind: Kind,
    code: i32,
    name: &'static str,
    rank: u8,
}

const fn row(kind: Kind, code: i32, name: &'static str, rank: u8) -> Row {
    Row { kind, code, name, rank }
}

/// All types, in the order of [`Kind`]. Types of one rank are compared with each other by value.
const ROWS: [Row; 21] = [
    row(Kind::MinKey, -1, "minKey", 0),
    row(Kind::Double, 1, "double", 30),
    row(Kind::String, 2, "string", 40),
    row(Kind::Object, 3, "object", 50),
    row(Kind::Array, 4, "array", 60),
    row(Kind::BinData, 5, "binData", 70),
    row(Kind::Undefined, 6, "undefined", 10),
    row(Kind::ObjectId, 7, "objectId", 80),
    row(Kind::Bool, 8, "bool", 90),
    row(Kind::Date, 9, "date", 100),
    row(Kind::Null, 10, "null", 20),
    row(Kind::Regex, 11, "regex", 120),
    row(Kind::DbPointer, 12, "dbPointer", 130),
    row(Kind::Code, 13, "javascript", 140),
    row(Kind::Symbol, 14, "symbol", 40),
    row(Kind::CodeWithScope, 15, "javascriptWithScope", 150),
    row(Kind::Int, 16, "int", 30),
    row(Kind::Timestamp, 17, "timestamp", 110),
    row(Kind::Long, 18, "long", 30),
    row(Kind::Decimal, 19, "decimal", 30),
    row(Kind::MaxKey, 127, "maxKey", 200),
];

impl Kind {
    /// All types.
    pub fn all() -> impl Iterator<Item = Kind> {
        ROWS.iter().map(|row| row.kind)
    }

    /// The name that error texts and `$type` use.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].name
    }

    /// The number on the wire.
    pub fn code(self) -> i32 {
        ROWS[self as usize].code
    }

    /// The place in the order of values; one for all numbers, one for strings and symbols.
    #[inline]
    pub fn rank(self) -> u8 {
        ROWS[self as usize].rank
    }

    /// Whether it is one of the four numeric types.
    pub fn is_numeric(self) -> bool {
        self.rank() == Kind::Int.rank()
    }

    /// The type called `name`.
    pub fn by_name(name: &str) -> Option<Kind> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.kind)
    }

    /// The type with number `code`.
    pub fn by_code(code: i64) -> Option<Kind> {
        ROWS.iter().find(|row| i64::from(row.code) == code).map(|row| row.kind)
    }
}

impl View<'_> {
    /// Its type.
    #[inline]
    pub fn kind(self) -> Kind {
        match self {
            Self::Double(_) => Kind::Double,
            Self::String(_) => Kind::String,
            Self::Document(_) => Kind::Object,
            Self::Array(_) => Kind::Array,
            Self::Binary { .. } => Kind::BinData,
            Self::Undefined => Kind::Undefined,
            Self::ObjectId(_) => Kind::ObjectId,
            Self::Bool(_) => Kind::Bool,
            Self::DateTime(_) => Kind::Date,
            Self::Null => Kind::Null,
            Self::Regex { .. } => Kind::Regex,
            Self::DbPointer(_) => Kind::DbPointer,
            Self::Code(_) => Kind::Code,
            Self::Symbol(_) => Kind::Symbol,
            Self::CodeWithScope { .. } => Kind::CodeWithScope,
            Self::Int32(_) => Kind::Int,
            Self::Timestamp { .. } => Kind::Timestamp,
            Self::Int64(_) => Kind::Long,
            Self::Decimal(_) => Kind::Decimal,
            Self::MinKey => Kind::MinKey,
            Self::MaxKey => Kind::MaxKey,
        }
    }

    /// The name of its type.
    pub fn type_name(self) -> &'static str {
        self.kind().name()
    }
}

/// A set of types, as `$type` and the `bsonType` keyword name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindSet {
    bits: u32,
    all_numbers: bool,
}

impl KindSet {
    /// Adds one type.
    pub fn insert(&mut self, kind: Kind) {
        self.bits |= 1 << kind as u32;
    }

    /// Adds the alias `number`.
    pub fn insert_numbers(&mut self) {
        self.all_numbers = true;
        for kind in [Kind::Int, Kind::Long, Kind::Double, Kind::Decimal] {
            self.insert(kind);
        }
    }

    /// Whether `kind` is in it.
    pub fn contains(self, kind: Kind) -> bool {
        self.bits & (1 << kind as u32) != 0
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Adds a type by its alias.
    ///
    /// # Errors
    /// `BadValue` for an unknown alias.
    pub fn insert_name(&mut self, name: &str) -> Result<()> {
        if name == "number" {
            self.insert_numbers();
            return Ok(());
        }
        match Kind::by_name(name) {
            Some(kind) => self.insert(kind),
            None => return fail(2, format!("Unknown type name alias: {name}")),
        }
        Ok(())
    }

    /// Adds a type named by one operand of `$type`: an alias or a number.
    ///
    /// # Errors
    /// `TypeMismatch` or `BadValue`, as a mongod reports them.
    pub fn insert_operand(&mut self, operand: View<'_>) -> Result<()> {
        if let Some(name) = operand.as_str() {
            return self.insert_name(name);
        }
        let Some(number) = operand.number() else {
            return fail(14, "type must be represented as a number or a string");
        };
        let code = number.as_exact_i64();
        if code == Some(0) {
            return fail(2, "Invalid numerical type code: 0. Instead use {$exists:false}.");
        }
        match code.and_then(Kind::by_code) {
            Some(kind) => self.insert(kind),
            None => {
                let shown = super::text::plain_number(number);
                return fail(2, format!("Invalid numerical type code: {shown}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::Bson;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, at);
            assert_eq!(Kind::by_name(row.name), Some(row.kind));
            assert_eq!(Kind::by_code(row.code.into()), Some(row.kind));
        }
    }

    #[test]
    fn type_operands() {
        let check = |operand: Bson, kind: Option<Kind>| {
            let mut set = KindSet::default();
            let parsed = set.insert_operand((&operand).into());
            assert_eq!(parsed.is_ok().then_some(kind).flatten().map(|kind| set.contains(kind)), kind.map(|_| true));
        };
        check(Bson::Int32(2), Some(Kind::String));
        check(Bson::Double(-1.0), Some(Kind::MinKey));
        check(Bson::String("number".into()), Some(Kind::Decimal));
        check(Bson::String("binData".into()), Some(Kind::BinData));
        check(Bson::Int32(77), None);
        check(Bson::Double(1.5), None);
        check(Bson::Boolean(true), None);
    }
}
