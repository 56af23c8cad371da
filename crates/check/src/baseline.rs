//! A baseline: findings that are known. A finding is known again by a fingerprint that does not hold its line number.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::finding::Finding;

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The form of the file: 1.
    pub version: u32,
    /// The findings.
    pub findings: Vec<Known>,
}

/// One of them. Only the fingerprint counts; the rest is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// What it is known by.
    pub fingerprint: String,
    /// The rule.
    pub rule: String,
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Baseline {
    /// A baseline of these findings.
    pub fn of(findings: &[Finding]) -> Self {
        let known = |finding: &Finding| Known {
            fingerprint: finding.fingerprint.clone(),
            rule: finding.rule.to_owned(),
            file: finding.place.as_ref().map(|place| place.path().to_owned()),
        };
        Self { version: 1, findings: findings.iter().map(known).collect() }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// Text that is no baseline, with line and column; another version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let baseline: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match baseline.version {
            1 => Ok(baseline),
            other => Err(format!("version {other} of a baseline is not known; make it anew")),
        }
    }

    /// Its fingerprints.
    pub fn fingerprints(&self) -> HashSet<&str> {
        self.findings.iter().map(|known| known.fingerprint.as_str()).collect()
    }
}

/// Gives each finding its fingerprint: of rule, file, what it is about and the text of its line, and a number where several
/// are alike.
pub fn fingerprint(findings: &mut [Finding]) {
    let mut seen: HashMap<[u8; 32], usize> = HashMap::new();
    for finding in findings {
        let mut hash = Sha256::new();
        let (path, line) = match &finding.place {
            Some(place) => (place.path().to_owned(), place.shown_line().text.trim().to_owned()),
            None => (String::new(), String::new()),
        };
        for part in [finding.rule, &path, &finding.about, &line] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let count = seen.entry(digest).or_default();
        let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        finding.fingerprint = if *count == 0 { hex } else { format!("{hex}-{count}") };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Place, SourceFile};

    fn finding(text: &str, line: usize) -> Finding {
        let file = SourceFile::new("a.yml", text);
        let mut finding = Finding::new("m").at(Some(&Place::of_line(&file, line)));
        finding.rule = "BF001";
        finding
    }

    #[test]
    fn a_fingerprint_survives_moved_lines_and_tells_twins_apart() {
        let mut findings = [finding("a: 1\n", 1), finding("\n\n  a: 1\n", 3), finding("a: 2\n", 1)];
        fingerprint(&mut findings[..1]);
        let first = findings[0].fingerprint.clone();
        fingerprint(&mut findings[1..]);
        assert_eq!(first, findings[1].fingerprint);
        assert_ne!(first, findings[2].fingerprint);
        fingerprint(&mut findings);
        assert_eq!(findings[1].fingerprint, format!("{first}-1"));
        let baseline = Baseline::of(&findings);
        let text = serde_json::to_string(&baseline).unwrap();
        assert_eq!(Baseline::parse(&text), Ok(baseline));
        for text in ["", "{}", "{\"version\":2,\"findings\":[]}", "[]"] {
            assert!(Baseline::parse(text).is_err());
        }
    }
}
