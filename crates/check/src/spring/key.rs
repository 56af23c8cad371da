//! Keys of properties and Spring Boot's relaxed binding.
//!
//! `max-poll-records`, `maxPollRecords`, `max_poll_records` and, in the environment, `MAXPOLLRECORDS` are one name.
//! An element in brackets is a map's key and stays as it is.

/// A key as elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    elements: Vec<Element>,
}

/// A part between dots, or in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The text as written.
    pub text: String,
    /// Whether it stood in brackets.
    pub is_bracketed: bool,
}

impl Key {
    /// Reads `a.b[c.d].e`.
    pub fn parse(text: &str) -> Self {
        let mut elements = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[')
                && let Some(end) = inside.find(']')
            {
                elements.push(Element { text: inside[..end].to_owned(), is_bracketed: true });
                rest = inside[end + 1..].trim_start_matches('.');
                continue;
            }
            let end =
                rest.char_indices().skip(1).find(|(_, c)| matches!(c, '.' | '[')).map_or(rest.len(), |(at, _)| at);
            let element = rest[..end].trim_matches('.');
            if !element.is_empty() {
                elements.push(Element { text: element.to_owned(), is_bracketed: false });
            }
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
        Self { elements }
    }

    /// This key with another behind it.
    pub fn join(&self, other: &Key) -> Self {
        Self { elements: self.elements.iter().chain(&other.elements).cloned().collect() }
    }

    /// This key with a list's index behind it.
    pub fn index(&self, index: usize) -> Self {
        let mut elements = self.elements.clone();
        elements.push(Element { text: index.to_string(), is_bracketed: true });
        Self { elements }
    }

    /// The elements.
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The form in which two spellings of one name are equal.
    pub fn canonical(&self) -> String {
        let of = |element: &Element| match element.is_bracketed {
            true => element.text.clone(),
            false => element.text.replace(['-', '_'], "").to_lowercase(),
        };
        self.elements.iter().map(of).collect::<Vec<_>>().join(".")
    }

    /// What is behind the first `depth` elements, as a map's key. Characters other than letters, digits, `-` and `.` count
    /// only in brackets.
    pub fn map_key(&self, depth: usize) -> String {
        let of = |element: &Element| match element.is_bracketed {
            true => element.text.clone(),
            false => element.text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '.')).collect(),
        };
        self.elements.iter().skip(depth).map(of).collect::<Vec<_>>().join(".")
    }

    /// The key of an environment variable: `SPRING_KAFKA_CONSUMER_MAXPOLLRECORDS`.
    pub fn from_environment(name: &str) -> Self {
        Self::parse(&name.to_lowercase().replace('_', "."))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, element) in self.elements.iter().enumerate() {
            match element.is_bracketed {
                true => write!(f, "[{}]", element.text)?,
                false if index > 0 => write!(f, ".{}", element.text)?,
                false => f.write_str(&element.text)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_has_many_spellings() {
        let canonical = Key::parse("spring.kafka.consumer.max-poll-records").canonical();
        for spelling in [
            "spring.kafka.consumer.maxPollRecords",
            "spring.kafka.consumer.max_poll_records",
            "SPRING.kafka.consumer.MAXPOLLRECORDS",
        ] {
            assert_eq!(Key::parse(spelling).canonical(), canonical, "{spelling}");
        }
        assert_eq!(Key::from_environment("SPRING_KAFKA_CONSUMER_MAXPOLLRECORDS").canonical(), canonical);
    }

    #[test]
    fn a_maps_key_is_what_is_left() {
        for text in ["a.b.max.poll.interval.ms", "a.b[max.poll.interval.ms]", "a.b.max[poll.interval].ms"] {
            assert_eq!(Key::parse(text).map_key(2), "max.poll.interval.ms", "{text}");
        }
        for text in ["", ".", "[", "[]", "a..b", "a[", "]", "ä.ö[ü"] {
            Key::parse(text);
        }
        assert_eq!(Key::parse("a.b[c.d].e").to_string(), "a.b[c.d].e");
    }
}
