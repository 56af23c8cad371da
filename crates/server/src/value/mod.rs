//! BSON values: one borrowed view for raw and decoded data, and what is defined on values alone.
//!
//! | file | subject |
//! | --- | --- |
//! | [`view`] | the borrowed [`View`] that every other file works on |
//! | [`kinds`] | type names, aliases and numbers |
//! | [`mod@compare`] | the total order of BSON values |
//! | [`number`] | numeric promotion and arithmetic |
//! | [`decimal`] | IEEE 754-2008 decimal128 arithmetic |
//! | [`decimal_math`] | roots, logarithms and trigonometry of decimals |
//! | [`text`] | values as a mongod spells them in error texts |
//! | [`collation`] | language-aware string comparison |
//! | [`key_string`] | order-preserving bytes |
//! | [`index_keys`] | the keys of a document under an index |
//!
//! Documents that reach this room were validated when they entered the server, so a raw read does not fail. Where one
//! fails all the same, iteration ends at that point, and conversions answer `InvalidBSON`.

pub mod collation;
pub mod compare;
pub mod decimal;
pub mod decimal_math;
pub mod index_keys;
pub mod key_string;
pub mod kinds;
pub mod number;
pub mod text;
pub mod view;
pub mod wildcard;

pub use collation::Collation;
pub use compare::{compare, compare_documents, equal};
pub use kinds::Kind;
pub use view::{ArrayView, DocView, View};
