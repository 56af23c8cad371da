//! A document with an `_id` put in front of its fields, by its bytes.

/// The bytes of a document that has `_id`, of this type ([`crate::scan::kind`]) and value, before the fields of `document`, which is valid
/// and has none. `None`: that would be larger than a document's length can say.
pub fn with_id(document: &[u8], kind: u8, value: &[u8]) -> Option<Vec<u8>> {
    const NAME: &[u8] = b"_id\0";
    let size_bytes = document.len() + 1 + NAME.len() + value.len();
    let mut whole = Vec::with_capacity(size_bytes);
    whole.extend_from_slice(&i32::try_from(size_bytes).ok()?.to_le_bytes());
    whole.push(kind);
    whole.extend_from_slice(NAME);
    whole.extend_from_slice(value);
    whole.extend_from_slice(document.get(4..)?);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use bson::{doc, oid::ObjectId};

    use super::*;
    use crate::scan::kind;

    #[test]
    fn the_id_stands_before_the_fields() {
        let id = ObjectId::from_bytes([7; 12]);
        for document in [doc! {}, doc! { "a": 1, "b": { "c": ["x"] } }] {
            let mut expected = doc! { "_id": id };
            expected.extend(document.clone());
            let whole = with_id(&document.to_vec().unwrap(), kind::OBJECT_ID, &id.bytes());
            assert_eq!(whole, Some(expected.to_vec().unwrap()));
        }
    }
}
