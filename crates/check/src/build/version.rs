//! Version numbers.

use std::cmp::Ordering;
use std::fmt;

/// A version: up to four numbers, and what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u32; 4],
    text: String,
    is_early: bool,
}

impl Version {
    /// Reads `3.4.0`, `2.7.18.RELEASE`, `4.2.0-M1`, `v1.17.1`. `None`: it does not begin with a number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        if text.len() > 60 {
            return None;
        }
        let mut numbers = [0; 4];
        let mut rest = text;
        let mut count = 0;
        while count < 4 {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let Ok(number) = rest[..end].parse::<u32>() else { break };
            numbers[count] = number;
            count += 1;
            rest = &rest[end..];
            match rest.strip_prefix('.') {
                Some(next) if next.starts_with(|c: char| c.is_ascii_digit()) => rest = next,
                _ => break,
            }
        }
        if count == 0 {
            return None;
        }
        let tail = rest.trim_start_matches(['.', '-']).to_ascii_uppercase();
        let is_early = ["M", "RC", "SNAPSHOT", "ALPHA", "BETA"].iter().any(|word| tail.starts_with(word));
        Some(Self { numbers, text: text.to_owned(), is_early })
    }

    /// Whether it is this release or a later one.
    pub fn at_least(&self, numbers: [u32; 3]) -> bool {
        self.numbers[..3] >= numbers[..]
    }

    /// The first number.
    pub fn major(&self) -> u32 {
        self.numbers[0]
    }

    /// The second number.
    pub fn minor(&self) -> u32 {
        self.numbers[1]
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.numbers, !self.is_early, &self.text).cmp(&(other.numbers, !other.is_early, &other.text))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_reading() {
        let of = |text| Version::parse(text).unwrap();
        assert!(of("4.2.0-M1") < of("4.2.0") && of("3.3.16") > of("3.3.9") && of("v1.17.1") > of("1.9"));
        assert!(of("2.7.18.RELEASE").at_least([2, 7, 18]) && !of("3.4").at_least([3, 4, 1]));
        for text in ["", "x", "latest", "99999999999", "${v}"] {
            assert!(Version::parse(text).is_none(), "{text}");
        }
    }
}
