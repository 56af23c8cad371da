//! A JSON object as BSON without a document in between: most of the time that a record takes would be spent on making
//! one and taking it apart. Extended JSON and whatever else is not plain is left to the documents.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// With more fields than that in one object, looking for a name that comes twice is left to the documents.
const MAX_FIELDS: usize = 32;

/// Appends the fields of a JSON object as BSON elements, in their order, without its `_id`. False: the text is not plain,
/// or no object at all; what was appended is of no use then.
pub(crate) fn append_fields(json: &[u8], out: &mut Vec<u8>) -> bool {
    let mut reader = serde_json::Deserializer::from_slice(json);
    reader.deserialize_map(Fields { out, is_top: true }).is_ok() && reader.end().is_ok()
}

/// Fields are appended, with nothing around them.
struct Fields<'o> {
    out: &'o mut Vec<u8>,
    /// Whether they are the document's own, of which `_id` is left out.
    is_top: bool,
}

/// The value of an element whose type is still to be set at this place, and whose name was appended.
struct Value<'o> {
    out: &'o mut Vec<u8>,
    kind_at: usize,
}

/// An element's name.
struct Name<'o>(&'o mut Vec<u8>);

/// Appends a size, the content, and the end of a document.
fn document<E: Error>(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let from = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out)?;
    out.push(0);
    let size = i32::try_from(out.len() - from).map_err(|_| E::custom("too large"))?;
    out[from..from + 4].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { out, is_top } = self;
        // Where the names are.
        let (mut names, mut count) = ([(0, 0); MAX_FIELDS], 0);
        loop {
            let kind_at = out.len();
            out.push(0);
            if map.next_key_seed(Name(out))?.is_none() {
                out.truncate(kind_at);
                return Ok(());
            }
            let (from, to) = (kind_at + 1, out.len());
            let is_id = is_top && &out[from..to] == b"_id\0";
            if names[..count].iter().any(|(start, end)| out[*start..*end] == out[from..to]) {
                return Err(A::Error::custom("a name comes twice"));
            }
            map.next_value_seed(Value { out, kind_at })?;
            if is_id {
                out.truncate(kind_at);
            } else {
                *names.get_mut(count).ok_or_else(|| A::Error::custom("too many fields"))? = (from, to);
                count += 1;
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        if name.starts_with('$') || name.contains('\0') {
            return Err(E::custom("not plain"));
        }
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        Ok(())
    }
}

impl Value<'_> {
    fn set<E>(self, kind: u8, bytes: &[u8]) -> Result<(), E> {
        self.out[self.kind_at] = kind;
        self.out.extend_from_slice(bytes);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.set(0x0a, &[])
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.set(0x08, &[u8::from(value)])
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match i32::try_from(value) {
            Ok(small) => self.set(0x10, &small.to_le_bytes()),
            Err(_) => self.set(0x12, &value.to_le_bytes()),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.set(0x01, &value.to_le_bytes())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let size = i32::try_from(text.len() + 1).map_err(|_| E::custom("too large"))?;
        self.out.extend_from_slice(&size.to_le_bytes());
        self.out.extend_from_slice(text.as_bytes());
        self.out[self.kind_at] = 0x02;
        self.out.push(0);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.out[self.kind_at] = 0x04;
        document(self.out, |out| {
            for index in 0_usize.. {
                let kind_at = out.len();
                out.push(0);
                out.extend_from_slice(index.to_string().as_bytes());
                out.push(0);
                if items.next_element_seed(Value { out, kind_at })?.is_none() {
                    out.truncate(kind_at);
                    break;
                }
            }
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.out[self.kind_at] = 0x03;
        document(self.out, |out| Fields { out, is_top: false }.visit_map(map))
    }
}
