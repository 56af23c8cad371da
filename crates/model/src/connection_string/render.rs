//! A connection string back as text: masked for people, in full for use.

use std::fmt;

use super::credential::shown_property;
use super::options::OptionName;
use super::secret::{MASK, Secret};
use super::value::{Value, ValueKind};
use super::{ConnectionString, Host, Occurrence, percent};

impl ConnectionString {
    /// The string in full, passwords included; for use, not for output. Reading it gives an equal value.
    pub fn to_uri_string(&self) -> String {
        self.render(
            |password| percent::encode_strict(password.expose()),
            Host::to_string,
            |option| format!("{}={}", option.name, percent::encode_value(option.value.expose())),
        )
    }

    fn masked(&self) -> String {
        let text = self.render(
            |_| MASK.to_owned(),
            Host::to_string,
            |option| {
                let name = if option.may_show_name { &option.name } else { MASK };
                format!("{name}={}", shown_value(option))
            },
        );
        if !self.is_suspect {
            return text;
        }
        // A password would begin after the first ':' or '@'; what reads as the first host cannot be one.
        let start = self.scheme.prefix().len();
        let end = text[start..].find([':', '@', ',', '/']).map_or(text.len(), |end| start + end);
        format!("{}{MASK}", &text[..end])
    }

    fn render(
        &self,
        password: impl Fn(&Secret) -> String,
        host: impl Fn(&Host) -> String,
        option: impl Fn(&Occurrence) -> String,
    ) -> String {
        let mut text = self.scheme.prefix().to_owned();
        if let Some(user) = &self.user {
            text += &percent::encode_strict(user);
            if let Some(secret) = &self.password {
                text.push(':');
                text += &password(secret);
            }
            text.push('@');
        }
        let hosts: Vec<String> = self.hosts.iter().map(host).collect();
        text += &hosts.join(",");
        text.push('/');
        if let Some(database) = &self.database {
            text += &percent::encode_strict(database);
        }
        for (index, occurrence) in self.occurrences.iter().enumerate() {
            text.push(if index == 0 { '?' } else { '&' });
            text += &option(occurrence);
        }
        text
    }
}

/// An option's value as one may show it.
fn shown_value(option: &Occurrence) -> String {
    let text = option.value.expose();
    // The value of an unknown option may be a password whose option is misspelled.
    let Some(spec) = option.option.map(OptionName::spec) else { return MASK.to_owned() };
    match spec.kind {
        ValueKind::Secret => MASK.to_owned(),
        ValueKind::Properties => match spec.kind.parse(text).value {
            Some(Value::Properties(properties)) => {
                let shown: Vec<String> = properties.iter().map(shown_property).collect();
                percent::encode_value(&shown.join(","))
            }
            _ => MASK.to_owned(),
        },
        _ => percent::encode_value(text),
    }
}

impl fmt::Display for ConnectionString {
    /// The string with every secret masked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl fmt::Debug for ConnectionString {
    /// As [`fmt::Display`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionString({self})")
    }
}
