//! `backfire-ignore: BF012 reason` in comments of any kind of file, and `[[ignore]]` in `backfire.toml`.

use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::finding::{Finding, Level};
use crate::rules;
use crate::source::{Place, SourceFile};
use crate::stated::Stated;

/// One that was found.
#[derive(Debug, Clone)]
pub struct Ignore {
    rule: &'static str,
    scope: Scope,
}

#[derive(Debug, Clone)]
enum Scope {
    /// A line of a file, and the line after it.
    Line { path: String, line: usize },
    /// All paths that contain this text; `None`: all findings of the rule.
    Paths(Option<String>),
}

/// All that were found.
#[derive(Debug, Clone, Default)]
pub struct Ignores {
    ignores: Vec<Ignore>,
    /// What is wrong with some.
    pub findings: Vec<Finding>,
}

static COMMENT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"backfire-ignore:?[ \t]*((?:(?i:BF[0-9]+)(?:[ \t]*,[ \t]*)?)*)[ \t]*([^\r\n]*)").ok());

impl Ignores {
    /// Reads the comments of a file.
    pub fn add_file(&mut self, file: &Arc<SourceFile>) {
        if !file.text.contains("backfire-ignore") {
            return;
        }
        for captured in COMMENT.iter().flat_map(|regex| regex.captures_iter(&file.text)) {
            let Some(whole) = captured.get(0) else { continue };
            let place = Place::new(file, whole.start()..whole.start() + whole.as_str().trim_end().len());
            let ids = captured.get(1).map_or("", |ids| ids.as_str());
            let reason =
                captured.get(2).map_or("", |reason| reason.as_str()).trim_end_matches(['*', '/', '-', '>', ' ']);
            let line = place.line();
            let mut any = false;
            for id in ids.split(',').map(str::trim).filter(|id| !id.is_empty()) {
                any = true;
                let scope = Scope::Line { path: file.path.clone(), line };
                self.add(id, scope, Some(&place));
            }
            if !any {
                self.bad(
                    "the comment names no rule".to_owned(),
                    "backfire-ignore: BF012 reason".to_owned(),
                    Some(&place),
                );
            } else if reason.trim().is_empty() {
                self.bad(
                    "the comment gives no reason".to_owned(),
                    format!("backfire-ignore: {} reason", ids.trim()),
                    Some(&place),
                );
            }
        }
    }

    /// Takes what `backfire.toml` says.
    pub fn add_stated(&mut self, file: &Arc<SourceFile>, stated: &Stated) {
        for ignore in &stated.ignore {
            let place = Place::new(file, ignore.rule.span());
            self.add(ignore.rule.get_ref(), Scope::Paths(ignore.path.clone()), Some(&place));
        }
    }

    fn add(&mut self, id: &str, scope: Scope, place: Option<&Place>) {
        match rules::find(id) {
            Some(rule) => self.ignores.push(Ignore { rule: rule.id, scope }),
            None => {
                let nearest = rules::nearest(id).map(|id| format!("; did you mean {id}?")).unwrap_or_default();
                self.bad(format!("there is no rule {id}{nearest}"), "a rule of docs/rules.md".to_owned(), place);
            }
        }
    }

    fn bad(&mut self, message: String, fix: String, place: Option<&Place>) {
        let mut finding = Finding::new(message).at(place).fix(fix);
        finding.rule = "BF039";
        finding.level = Level::Warning;
        self.findings.push(finding);
    }

    /// Whether a finding is not wanted.
    pub fn covers(&self, finding: &Finding) -> bool {
        self.ignores.iter().filter(|ignore| ignore.rule == finding.rule).any(|ignore| match &ignore.scope {
            Scope::Paths(None) => true,
            Scope::Paths(Some(part)) => {
                finding.place.as_ref().is_some_and(|place| place.path().contains(part.as_str()))
            }
            Scope::Line { path, line } => finding
                .place
                .as_ref()
                .is_some_and(|place| place.path() == path && (place.line() == *line || place.line() == line + 1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignores(text: &str) -> (Ignores, Arc<SourceFile>) {
        let file = SourceFile::new("a.yml", text);
        let mut ignores = Ignores::default();
        ignores.add_file(&file);
        (ignores, file)
    }

    #[test]
    fn a_comment_covers_its_line_and_the_next() {
        let (ignores, file) = ignores("# backfire-ignore: BF001, bf002 known\na: 1\nb: 2\n");
        assert!(ignores.findings.is_empty(), "{:?}", ignores.findings);
        let mut finding = Finding::new("x");
        for (rule, line, covered) in
            [("BF001", 1, true), ("BF001", 2, true), ("BF002", 2, true), ("BF001", 3, false), ("BF003", 2, false)]
        {
            finding.rule = rule;
            finding.place = Some(Place::of_line(&file, line));
            assert_eq!(ignores.covers(&finding), covered, "{rule} {line}");
        }
    }

    #[test]
    fn an_unknown_rule_no_rule_and_no_reason_are_findings() {
        for (text, message) in [
            ("// backfire-ignore: BF999 x", "there is no rule BF999"),
            ("// backfire-ignore", "names no rule"),
            ("/* backfire-ignore: BF001 */", "gives no reason"),
        ] {
            let (ignores, _) = ignores(text);
            assert!(ignores.findings[0].message.contains(message), "{:?}", ignores.findings);
        }
    }
}
