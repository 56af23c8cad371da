//! Order-preserving bytes: comparing two keys byte by byte is comparing their values.
//!
//! A key is a list of values, each ascending or descending. Every value starts with the rank of its type (never 0 or
//! 255), so a shorter text before it sorts first in either direction. Equal values of different types (`1`, `1.0`,
//! `NumberLong(1)`, `NumberDecimal("1.0")`) give equal bytes; equal bytes therefore also group and deduplicate.

use super::compare::stored_length;
use super::decimal::{Dec, Magnitude};
use super::{ArrayView, Collation, DocView, View};

/// Direction of one field of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smaller values first.
    Ascending,
    /// Larger values first.
    Descending,
}

/// Ends a text, a document or an array. Smaller than the rank of any type.
const END: u8 = 0;
/// Follows an [`END`] byte that is part of a text.
const ESCAPED: u8 = 255;

/// Classes of numbers, in order.
mod class {
    pub const NAN: u8 = 1;
    pub const NEGATIVE: u8 = 2;
    pub const ZERO: u8 = 3;
    pub const POSITIVE: u8 = 4;
}

/// Builds a key.
#[derive(Debug, Clone, Default)]
pub struct KeyBuilder {
    bytes: Vec<u8>,
}

impl KeyBuilder {
    /// An empty key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn push(&mut self, value: View<'_>, direction: Direction, collation: Option<&Collation>) {
        let start = self.bytes.len();
        append_value(&mut self.bytes, value, collation);
        if direction == Direction::Descending {
            self.bytes[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Adds the place of a missing value: below null, as missing sorts in an index of expressions.
    pub fn push_missing(&mut self) {
        self.bytes.push(super::Kind::MinKey.rank() + 2);
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The finished key.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The key of one ascending value.
pub fn encode(value: View<'_>, collation: Option<&Collation>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    append_value(&mut bytes, value, collation);
    bytes
}

/// Appends the bytes of one ascending value.
pub fn append_value(out: &mut Vec<u8>, value: View<'_>, collation: Option<&Collation>) {
    out.push(rank_byte(value));
    append_payload(out, value, collation);
}

/// The rank, moved away from [`END`] and [`ESCAPED`].
fn rank_byte(value: View<'_>) -> u8 {
    value.kind().rank() + 1
}

fn append_payload(out: &mut Vec<u8>, value: View<'_>, collation: Option<&Collation>) {
    match value {
        View::Int32(value) => append_integer(out, value.into()),
        View::Int64(value) => append_integer(out, value),
        View::Double(value) => append_double(out, value),
        View::Decimal(value) => append_decimal(out, Dec::from_bson(value)),
        View::String(text) | View::Symbol(text) => match collation {
            Some(collation) => append_text(out, &collation.sort_key(text)),
            None => append_text(out, text.as_bytes()),
        },
        View::Document(document) => append_document(out, document, collation),
        View::Array(array) => append_array(out, array, collation),
        View::Binary { subtype, bytes } => {
            out.extend((stored_length(subtype, bytes) as u32).to_be_bytes());
            out.push(subtype);
            out.extend(bytes);
        }
        View::ObjectId(id) => out.extend(id.bytes()),
        View::Bool(value) => out.push(value.into()),
        View::DateTime(millis) => out.extend((millis as u64 ^ 1 << 63).to_be_bytes()),
        View::Timestamp { time, increment } => {
            out.extend(time.to_be_bytes());
            out.extend(increment.to_be_bytes());
        }
        View::Regex { pattern, options } => {
            append_text(out, pattern.as_bytes());
            append_text(out, options.as_bytes());
        }
        View::DbPointer(pointer) => {
            let (namespace, id) = pointer.parts();
            out.extend((namespace.len() as u32).to_be_bytes());
            out.extend(namespace.as_bytes());
            out.extend(id.bytes());
        }
        View::Code(code) => append_text(out, code.as_bytes()),
        View::CodeWithScope { code, scope } => {
            append_text(out, code.as_bytes());
            append_document(out, scope, None);
        }
        View::MinKey | View::MaxKey | View::Null | View::Undefined => {}
    }
}

fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    for part in text.split_inclusive(|byte| *byte == END) {
        out.extend(part);
        if part.ends_with(&[END]) {
            out.push(ESCAPED);
        }
    }
    out.push(END);
}

fn append_document(out: &mut Vec<u8>, document: DocView<'_>, collation: Option<&Collation>) {
    // type, then name, then value: the order in which documents are compared
    for (name, value) in document.iter() {
        out.push(rank_byte(value));
        append_text(out, name.as_bytes());
        append_payload(out, value, collation);
    }
    out.push(END);
}

fn append_array(out: &mut Vec<u8>, array: ArrayView<'_>, collation: Option<&Collation>) {
    for value in array.iter() {
        append_value(out, value, collation);
    }
    out.push(END);
}

/// Numbers are their class, then the double next to them toward zero, then what that double leaves out: [`END`] for
/// nothing, else all decimal digits. For negative numbers all bytes after the class are inverted.
fn append_integer(out: &mut Vec<u8>, value: i64) {
    let magnitude = value.unsigned_abs();
    if magnitude <= 1 << 53 {
        append_double(out, value as f64);
    } else {
        append_decimal(out, Dec::from(value));
    }
}

fn append_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.push(class::NAN);
    } else if value == 0.0 {
        out.push(class::ZERO);
    } else {
        append_magnitude(out, value < 0.0, value.abs(), None);
    }
}

fn append_decimal(out: &mut Vec<u8>, value: Dec) {
    if value.is_nan() {
        out.push(class::NAN);
    } else if value.is_zero() {
        out.push(class::ZERO);
    } else {
        let (toward_zero, exact) = value.magnitude_toward_zero();
        append_magnitude(out, value.negative, toward_zero, (!exact).then_some(value));
    }
}

fn append_magnitude(out: &mut Vec<u8>, negative: bool, toward_zero: f64, rest: Option<Dec>) {
    out.push(if negative { class::NEGATIVE } else { class::POSITIVE });
    let start = out.len();
    out.extend(toward_zero.to_bits().to_be_bytes());
    match rest.map(|value| value.normalized().magnitude) {
        Some(Magnitude::Finite { coefficient, exponent }) => {
            let digits = coefficient.to_string();
            // the power of ten of the leading digit, moved above zero; then the digits, two to a byte
            let leading = (exponent + digits.len() as i32 + 10_000) as u16;
            out.push(END + 1);
            out.extend(leading.to_be_bytes());
            for pair in digits.as_bytes().chunks(2) {
                let tens = pair[0] - b'0';
                let ones = pair.get(1).map_or(0, |byte| byte - b'0');
                out.push(tens * 10 + ones + 1);
            }
            out.push(END);
        }
        _ => out.push(END),
    }
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::value::compare;
    use bson::oid::ObjectId;
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp};
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// Any BSON value, nested a little, with many equal numbers of different types.
    pub(crate) fn any_bson() -> impl Strategy<Value = Bson> {
        let number = prop_oneof![
            any::<i32>().prop_map(Bson::Int32),
            (-3..4).prop_map(Bson::Int32),
            any::<i64>().prop_map(Bson::Int64),
            (-3_i64..4).prop_map(Bson::Int64),
            ((1_i64 << 53) - 3..(1_i64 << 53) + 3).prop_map(Bson::Int64),
            any::<f64>().prop_map(Bson::Double),
            (-6..7).prop_map(|half| Bson::Double(f64::from(half) / 2.0)),
            (0_i64..6).prop_map(|step| Bson::Double(((1_i64 << 53) - 3 + step) as f64)),
            Just(Bson::Double(f64::NAN)),
            Just(Bson::Double(-0.0)),
            any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
            "-?[0-9]{1,3}(\\.[0-9]{1,3})?(E-?[0-9]{1,3})?".prop_map(|text| Bson::Decimal128(text.parse().unwrap())),
            (0_i64..6).prop_map(|step| { Bson::Decimal128(((1_i64 << 53) - 3 + step).to_string().parse().unwrap()) }),
        ];
        let leaf = prop_oneof![
            4 => number,
            2 => "[a\\x00\u{e9}z]{0,4}".prop_map(Bson::String),
            1 => prop_oneof![
                "[ab]{0,2}".prop_map(Bson::Symbol),
                "[ab]{0,2}".prop_map(Bson::JavaScriptCode),
                prop::collection::vec(any::<u8>(), 0..4).prop_map(|bytes| {
                    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes })
                }),
                any::<bool>().prop_map(Bson::Boolean),
                any::<i64>().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
                any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
                (0_u32..3, 0_u32..3).prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
                "[ab]{0,2}".prop_map(|pattern| Bson::RegularExpression(Regex {
                    pattern: pattern.try_into().unwrap(),
                    options: bson::raw::cstr!("i").into(),
                })),
                Just(Bson::Null),
                Just(Bson::Undefined),
                Just(Bson::MinKey),
                Just(Bson::MaxKey),
            ],
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
                prop::collection::vec(("[ab.]{0,2}", inner), 0..4)
                    .prop_map(|fields| Bson::Document(fields.into_iter().collect::<Document>())),
            ]
        })
    }

    fn order(left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }

    #[test]
    fn equal_numbers_have_equal_bytes() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        let one = [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0), decimal("1.0"), decimal("1")];
        let zero = [Bson::Int32(0), Bson::Double(-0.0), decimal("-0E+10")];
        let large = [Bson::Int64((1 << 53) + 1), decimal("9007199254740993"), decimal("9007199254740993.000")];
        for group in [&one[..], &zero[..], &large[..]] {
            let keys: Vec<_> = group.iter().map(|value| encode(value.into(), None)).collect();
            assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{group:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn bytes_order_as_values(left in any_bson(), right in any_bson()) {
            let want = compare(View::from(&left), View::from(&right), None);
            prop_assert_eq!(order(&encode((&left).into(), None), &encode((&right).into(), None)), want);
        }

        #[test]
        fn order_is_total(a in any_bson(), b in any_bson(), c in any_bson()) {
            let cmp = |x: &Bson, y: &Bson| compare(View::from(x), View::from(y), None);
            prop_assert_eq!(cmp(&a, &b), cmp(&b, &a).reverse());
            prop_assert_eq!(cmp(&a, &a), Ordering::Equal);
            if cmp(&a, &b) != Ordering::Greater && cmp(&b, &c) != Ordering::Greater {
                prop_assert_ne!(cmp(&a, &c), Ordering::Greater);
            }
        }

        #[test]
        fn lists_order_by_each_direction(
            left in prop::collection::vec(any_bson(), 3),
            right in prop::collection::vec(any_bson(), 3),
            down in any::<[bool; 3]>(),
        ) {
            let key = |values: &[Bson]| {
                let mut builder = KeyBuilder::new();
                for (value, down) in values.iter().zip(down) {
                    let direction = if down { Direction::Descending } else { Direction::Ascending };
                    builder.push(value.into(), direction, None);
                }
                builder.finish()
            };
            let want = left.iter().zip(&right).zip(down).fold(Ordering::Equal, |so_far, ((left, right), down)| {
                let one = compare(View::from(left), View::from(right), None);
                so_far.then(if down { one.reverse() } else { one })
            });
            prop_assert_eq!(order(&key(&left), &key(&right)), want);
        }

        #[test]
        fn raw_and_decoded_agree(left in any_bson(), right in any_bson()) {
            let raw = |value: &Bson| crate::value::view::to_raw(&bson::doc! { "v": value.clone() }).unwrap();
            let (raw_left, raw_right) = (raw(&left), raw(&right));
            let (raw_left, raw_right) = (DocView::from(&raw_left).get("v"), DocView::from(&raw_right).get("v"));
            let (raw_left, raw_right) = (raw_left.unwrap(), raw_right.unwrap());
            prop_assert_eq!(compare(raw_left, raw_right, None), compare((&left).into(), (&right).into(), None));
            prop_assert_eq!(encode(raw_left, None), encode((&left).into(), None));
        }
    }
}
