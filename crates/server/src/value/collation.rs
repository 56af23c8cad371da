//! Language-aware comparison of strings: the `collation` option.
//!
//! Comparison and sort keys come from ICU4X with its CLDR data. Two points differ from a mongod, which links ICU 57:
//! the CLDR data is newer, and `backwards: true` is refused outside Canadian French, where it is the language's own rule.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::{Document, doc};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering, CollationType};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use super::text;
use super::{DocView, View};
use crate::error::{CommandError, Result, fail};

/// Languages that a collation may name; a script or a region may follow (`fr_CA`, `zh_Hant`).
const LANGUAGES: &[&str] = &[
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "bo", "bs", "ca", "chr", "cs", "cy", "da", "de", "dsb", "dz", "ee",
    "el", "en", "eo", "es", "et", "fa", "fi", "fil", "fo", "fr", "ga", "gl", "gu", "ha", "haw", "he", "hi", "hr",
    "hsb", "hu", "hy", "id", "ig", "is", "it", "ja", "ka", "kk", "kl", "km", "kn", "ko", "kok", "ky", "lb", "lkt",
    "ln", "lo", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "mt", "my", "nb", "ne", "nl", "nn", "om", "or", "pa", "pl",
    "ps", "pt", "ro", "ru", "se", "si", "sk", "sl", "smn", "sq", "sr", "sv", "sw", "ta", "te", "th", "to", "tr", "ug",
    "uk", "ur", "vi", "wae", "yi", "yo", "zh", "zu",
];

/// The variants that follow `@collation=`, by ICU's names.
const VARIANTS: &[(&str, CollationType)] = &[
    ("compat", CollationType::Compat),
    ("dictionary", CollationType::Dict),
    ("emoji", CollationType::Emoji),
    ("eor", CollationType::Eor),
    ("phonebook", CollationType::Phonebk),
    ("phonetic", CollationType::Phonetic),
    ("pinyin", CollationType::Pinyin),
    ("search", CollationType::Search),
    ("searchjl", CollationType::Searchjl),
    ("standard", CollationType::Standard),
    ("stroke", CollationType::Stroke),
    ("traditional", CollationType::Trad),
    ("unihan", CollationType::Unihan),
    ("zhuyin", CollationType::Zhuyin),
];

/// A parsed collation other than the simple one. Cheap to clone.
#[derive(Clone)]
pub struct Collation {
    inner: Arc<Inner>,
}

struct Inner {
    spec: Document,
    collator: CollatorBorrowed<'static>,
}

impl std::fmt::Debug for Collation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Collation").field(&self.inner.spec).finish()
    }
}

impl PartialEq for Collation {
    fn eq(&self, other: &Self) -> bool {
        self.inner.spec == other.inner.spec
    }
}

impl Collation {
    /// Parses the `collation` option; `None` is the simple (binary) collation, which an empty document means too.
    ///
    /// # Errors
    /// A mongod's error for an unknown locale, field or value.
    pub fn parse<'a>(spec: impl Into<DocView<'a>>) -> Result<Option<Self>> {
        let spec = spec.into();
        if spec.is_empty() {
            return Ok(None);
        }
        let shown = || text::document(spec);
        let locale = match spec.get("locale") {
            None => return fail(4, "Missing expected field \"locale\""),
            Some(View::String(locale)) => locale,
            Some(other) => return wrong_type("locale", "string", other),
        };
        if locale == "simple" {
            if spec.iter().count() > 1 {
                return fail(2, format!("If locale=simple, no other fields should be present in: {}", shown()));
            }
            return Ok(None);
        }
        let bad_locale = || CommandError::bad_value(format!("Field 'locale' is invalid in: {}", shown()));
        let mut preferences = preferences_of(locale).ok_or_else(bad_locale)?;
        let mut options = CollatorOptions::default();
        let fields = Fields::read(spec)?;
        fields.apply(&mut preferences, &mut options);
        let collator = CollatorBorrowed::try_new(preferences, options).map_err(|_| bad_locale())?;
        let resolved = collator.resolved_options();
        let strength = fields.strength.unwrap_or(3);
        let case_level = resolved.case_level == CaseLevel::On;
        if fields.case_first.is_some_and(|case| case != "off") && !case_level && strength < 3 {
            let why = "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in";
            return fail(2, format!("{why}: {}", shown()));
        }
        let backwards = locale.starts_with("fr_CA");
        if fields.backwards == Some(true) && !backwards {
            return fail(238, format!("'backwards' is only supported for Canadian French in: {}", shown()));
        }
        let shifted = resolved.alternate_handling == AlternateHandling::Shifted;
        let spaces = resolved.max_variable == MaxVariable::Space;
        let spec = doc! {
            "locale": locale,
            "caseLevel": case_level,
            "caseFirst": fields.case_first.unwrap_or("off"),
            "strength": strength,
            "numericOrdering": resolved.numeric == CollationNumericOrdering::True,
            "alternate": if shifted { "shifted" } else { "non-ignorable" },
            "maxVariable": if spaces { "space" } else { "punct" },
            "normalization": fields.normalization.unwrap_or(false),
            "backwards": backwards,
            "version": "57.1",
        };
        Ok(Some(Self { inner: Arc::new(Inner { spec, collator }) }))
    }

    /// All its options, as an index or a collection reports them.
    pub fn spec(&self) -> &Document {
        &self.inner.spec
    }

    /// Compares two strings.
    pub fn compare(&self, left: &str, right: &str) -> Ordering {
        self.inner.collator.compare(left, right)
    }

    /// Bytes whose order is the order of the strings; strings that compare equal have equal bytes.
    pub fn sort_key(&self, text: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(text.len() * 2);
        let Ok(()) = self.inner.collator.write_sort_key_to(text, &mut key);
        key
    }
}

/// The fields of a collation document, checked one by one.
#[derive(Default)]
struct Fields<'a> {
    case_level: Option<bool>,
    case_first: Option<&'a str>,
    strength: Option<i32>,
    numeric_ordering: Option<bool>,
    alternate: Option<&'a str>,
    max_variable: Option<&'a str>,
    normalization: Option<bool>,
    backwards: Option<bool>,
}

impl<'a> Fields<'a> {
    fn read(spec: DocView<'a>) -> Result<Self> {
        let mut fields = Self::default();
        for (name, value) in spec.iter() {
            match name {
                "locale" => {}
                "caseLevel" => fields.case_level = Some(boolean(name, value)?),
                "caseFirst" => fields.case_first = Some(one_of(name, value, &["upper", "lower", "off"])?),
                "strength" => {
                    let Some(number) = value.number() else { return wrong_type(name, "number", value) };
                    match number.as_exact_i32() {
                        Some(strength @ 1..=5) => fields.strength = Some(strength),
                        _ => {
                            let got = text::plain_number(number);
                            let text = format!("Field 'strength' must be an integer 1 through 5. Got: {got}");
                            return fail(9, text);
                        }
                    }
                }
                "numericOrdering" => fields.numeric_ordering = Some(boolean(name, value)?),
                "alternate" => fields.alternate = Some(one_of(name, value, &["non-ignorable", "shifted"])?),
                "maxVariable" => fields.max_variable = Some(one_of(name, value, &["punct", "space"])?),
                "normalization" => fields.normalization = Some(boolean(name, value)?),
                "backwards" => fields.backwards = Some(boolean(name, value)?),
                "version" => match value {
                    View::String("57.1") => {}
                    View::String(version) => {
                        let text = format!(
                            "Requested collation version {version} but the only available collator version was 57.1"
                        );
                        return fail(161, format!("{text}. Requested collation spec: {}", self::text::document(spec)));
                    }
                    other => return wrong_type(name, "string", other),
                },
                _ => {
                    let shown = text::document(spec);
                    return fail(9, format!("Collation spec contains unknown field. Collation spec: {shown}"));
                }
            }
        }
        Ok(fields)
    }

    fn apply(&self, preferences: &mut CollatorPreferences, options: &mut CollatorOptions) {
        options.strength = self.strength.map(|strength| match strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
        options.case_level = self.case_level.map(|on| if on { CaseLevel::On } else { CaseLevel::Off });
        options.alternate_handling = self.alternate.map(|how| match how {
            "shifted" => AlternateHandling::Shifted,
            _ => AlternateHandling::NonIgnorable,
        });
        options.max_variable = self.max_variable.map(|which| match which {
            "space" => MaxVariable::Space,
            _ => MaxVariable::Punctuation,
        });
        if let Some(case) = self.case_first {
            preferences.case_first = Some(match case {
                "upper" => CollationCaseFirst::Upper,
                "lower" => CollationCaseFirst::Lower,
                _ => CollationCaseFirst::False,
            });
        }
        if let Some(on) = self.numeric_ordering {
            preferences.numeric_ordering =
                Some(if on { CollationNumericOrdering::True } else { CollationNumericOrdering::False });
        }
    }
}

fn wrong_type<T>(name: &str, expected: &str, found: View<'_>) -> Result<T> {
    fail(14, format!("\"{name}\" had the wrong type. Expected {expected}, found {}", found.type_name()))
}

fn boolean(name: &str, value: View<'_>) -> Result<bool> {
    match value {
        View::Bool(value) => Ok(value),
        other if other.number().is_some() => Ok(other.is_true()),
        other => wrong_type(name, "bool", other),
    }
}

fn one_of<'a>(name: &str, value: View<'a>, allowed: &[&str]) -> Result<&'a str> {
    let View::String(word) = value else { return wrong_type(name, "string", value) };
    if allowed.contains(&word) {
        return Ok(word);
    }
    let quoted: Vec<_> = allowed.iter().map(|word| format!("'{word}'")).collect();
    let list = match quoted.as_slice() {
        [first, second] => format!("{first} or {second}"),
        many => format!("{}, or {}", many[..many.len() - 1].join(", "), many[many.len() - 1]),
    };
    fail(9, format!("Field '{name}' must be {list}. Got: {word}"))
}

/// ICU's locale name (`de_AT@collation=phonebook`) as preferences.
fn preferences_of(locale: &str) -> Option<CollatorPreferences> {
    let (name, variant) = match locale.split_once('@') {
        Some((name, keyword)) => (name, Some(keyword.strip_prefix("collation=")?)),
        None => (locale, None),
    };
    let language = name.split('_').next()?;
    if !LANGUAGES.contains(&language) {
        return None;
    }
    let tag = if name == "en_US_POSIX" { "en-US-posix".to_owned() } else { name.replace('_', "-") };
    let parsed: Locale = tag.parse().ok()?;
    let mut preferences = CollatorPreferences::from(&parsed);
    if let Some(variant) = variant {
        preferences.collation_type = Some(VARIANTS.iter().find(|(known, _)| *known == variant)?.1);
    }
    Some(preferences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collation(spec: Document) -> Collation {
        Collation::parse(&spec).unwrap().unwrap()
    }

    #[test]
    fn comparison_by_strength() {
        let check = |strength: i32, left: &str, right: &str, want: Ordering| {
            let collation = collation(doc! { "locale": "en", "strength": strength });
            assert_eq!(collation.compare(left, right), want, "{left} {right} {strength}");
        };
        check(1, "resume", "RÉSUMÉ", Ordering::Equal);
        check(2, "banana", "Banana", Ordering::Equal);
        check(2, "resume", "résumé", Ordering::Less);
        check(3, "a", "A", Ordering::Less);
        check(3, "A", "b", Ordering::Less);
    }

    #[test]
    fn options_change_the_order() {
        let numeric = collation(doc! { "locale": "en", "numericOrdering": true });
        assert_eq!(numeric.compare("a10", "a9"), Ordering::Greater);
        let upper = collation(doc! { "locale": "en", "caseFirst": "upper" });
        assert_eq!(upper.compare("a", "A"), Ordering::Greater);
        let swedish = collation(doc! { "locale": "sv" });
        assert_eq!(swedish.compare("ö", "z"), Ordering::Greater);
        let phonebook = collation(doc! { "locale": "de@collation=phonebook", "strength": 1 });
        assert_eq!(phonebook.compare("Göbel", "Goebel"), Ordering::Equal);
        assert!(collation(doc! { "locale": "fr_CA", "backwards": true }).spec().get_bool("backwards").unwrap());
    }

    #[test]
    fn simple_is_none() {
        assert_eq!(Collation::parse(&doc! { "locale": "simple" }).unwrap(), None);
        assert_eq!(Collation::parse(&doc! {}).unwrap(), None);
    }

    #[test]
    fn errors() {
        let check = |spec: Document, code: i32, message: &str| {
            let error = Collation::parse(&spec).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (code, message));
        };
        check(doc! { "locale": "xx" }, 2, "Field 'locale' is invalid in: { locale: \"xx\" }");
        check(doc! { "strength": 1 }, 4, "Missing expected field \"locale\"");
        check(doc! { "locale": 1 }, 14, "\"locale\" had the wrong type. Expected string, found int");
        let range = "Field 'strength' must be an integer 1 through 5. Got: 6";
        check(doc! { "locale": "en", "strength": 6 }, 9, range);
        let words = "Field 'caseFirst' must be 'upper', 'lower', or 'off'. Got: x";
        check(doc! { "locale": "en", "caseFirst": "x" }, 9, words);
    }

    proptest! {
        #[test]
        fn sort_keys_order_as_compare(left in "\\PC{0,8}", right in "\\PC{0,8}", strength in 1..=3) {
            let collation = collation(doc! { "locale": "en", "strength": strength });
            prop_assert_eq!(
                collation.sort_key(&left).cmp(&collation.sort_key(&right)),
                collation.compare(&left, &right)
            );
        }

        #[test]
        fn any_locale_is_an_error_or_a_collation(locale in "[a-zA-Z_@=-]{0,12}") {
            let _ = Collation::parse(&doc! { "locale": locale });
        }
    }
}
