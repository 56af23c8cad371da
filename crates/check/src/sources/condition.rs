//! What a service's configuration says of the conditions on its beans.

use backfire_jvm::{Configuration, Known};

use crate::spring::{Properties, profile};

/// The profile that is active where no other is.
const DEFAULT_PROFILE: &str = "default";

/// A service's configuration; `None`: none was found, and nothing is known.
pub struct Conditions<'a>(pub Option<&'a Properties>);

impl Configuration for Conditions<'_> {
    fn property(&self, key: &str) -> Known {
        let Some(properties) = self.0 else { return Known::Unknown };
        match properties.get(key) {
            Some(property) => {
                properties.resolve(property).known().map_or(Known::Unknown, |text| Known::Text(text.trim().to_owned()))
            }
            None => Known::Missing,
        }
    }

    fn profile(&self, expression: &str) -> Option<bool> {
        let properties = self.0?;
        // In a configuration file a comma separates alternatives; here it is a part of the name.
        if expression.contains(',') {
            return None;
        }
        match properties.profiles.is_empty() {
            true => profile::matches(expression, &[DEFAULT_PROFILE.to_owned()]),
            false => profile::matches(expression, &properties.profiles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_configuration_nothing_is_known() {
        assert_eq!((Conditions(None).property("a"), Conditions(None).profile("a")), (Known::Unknown, None));
        let none = Properties::default();
        let default = Conditions(Some(&none));
        assert_eq!((default.property("a"), default.profile("default")), (Known::Missing, Some(true)));
        assert_eq!(
            (default.profile("!prod"), default.profile("prod"), default.profile("(")),
            (Some(true), Some(false), None)
        );
        let mut prod = Properties::default();
        prod.profiles.push("prod".to_owned());
        assert_eq!(
            (Conditions(Some(&prod)).profile("prod"), Conditions(Some(&prod)).profile("default")),
            (Some(true), Some(false))
        );
    }
}
