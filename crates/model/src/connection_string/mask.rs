//! The input with every place masked where a secret is, or may be.
//!
//! This does not depend on the string being well formed: it is used to show strings that are not. In doubt it
//! masks too much.

use std::ops::Range;
use std::sync::Arc;

use super::Scheme;
use super::options;
use super::secret::MASK;

/// The masked input and where its parts went.
#[derive(Debug, Clone)]
pub(super) struct Masked {
    text: Arc<str>,
    /// Masked ranges of the input, in order.
    secrets: Vec<Range<usize>>,
}

impl Masked {
    pub(super) fn new(input: &str) -> Self {
        let secrets = secrets(input);
        let mut text = String::with_capacity(input.len());
        let mut done = 0;
        for secret in &secrets {
            text.push_str(&printable(&input[done..secret.start]));
            text.push_str(MASK);
            done = secret.end;
        }
        text.push_str(&printable(&input[done..]));
        Self { text: text.into(), secrets }
    }

    pub(super) fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// Where a span of the input is in the masked text; one that touches a secret covers its mask.
    pub(super) fn shown_span(&self, span: &Range<usize>) -> Range<usize> {
        self.place(span.start, false)..self.place(span.end, true)
    }

    fn place(&self, at: usize, is_end: bool) -> usize {
        let mut shift = 0_isize;
        for secret in &self.secrets {
            if at <= secret.start {
                break;
            }
            if at < secret.end {
                let place = if is_end { secret.start + MASK.len() } else { secret.start };
                return place.saturating_add_signed(shift);
            }
            shift += MASK.len() as isize - secret.len() as isize;
        }
        at.saturating_add_signed(shift)
    }
}

/// A control character could move a terminal's cursor; `?` for each of its bytes keeps the spans right.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(std::iter::repeat_n('?', character.len_utf8()));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The ranges to mask, in order and apart.
fn secrets(input: &str) -> Vec<Range<usize>> {
    let rest = scheme_end(input);
    let options = input[rest..].find('?').map_or(input.len(), |at| rest + at + 1);
    let mut found = Vec::new();
    match input[rest..].rfind('@') {
        // A password with `/`, `?` or `@` unescaped ends at the last `@`, wherever that is.
        Some(last) => {
            let user = &input[rest..rest + last];
            let start = user.find([':', '@']).map_or(user.len(), |at| at + 1);
            found.push(rest + start..rest + last);
        }
        // `user:password` without a host looks like `host:port`.
        None => {
            let end = input[rest..].find(['/', '?']).map_or(input.len(), |at| rest + at);
            let hosts = &input[rest..end];
            let is_host = |host: &str| {
                let port = host.rsplit_once(':').map(|(_, port)| port);
                host.starts_with('[') || port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
            };
            if let Some(colon) = hosts.find(':').filter(|_| !hosts.split(',').all(is_host)) {
                found.push(rest + colon + 1..end);
            }
        }
    }
    let mut at = options;
    let mut names = NameCheck::default();
    for option in input.get(options..).unwrap_or_default().split(['&', ';']) {
        let hidden = match option.split_once('=') {
            Some((name, _)) if !names.may_show(name) => at..at + option.len(),
            Some((name, _)) if options::find(name).is_some_and(|(spec, _)| !spec.hides_value()) => at..at,
            Some((name, _)) => at + name.len() + 1..at + option.len(),
            None => at..at + option.len(),
        };
        found.push(hidden);
        at += option.len() + 1;
    }
    merged(found)
}

/// Where the scheme ends. Only the schemes that exist count: in `user://pass@host` the `://` may be of a password.
fn scheme_end(input: &str) -> usize {
    let start = input.len() - super::parse::without_quotes(input).len();
    let ends = [Scheme::Mongodb, Scheme::MongodbSrv].map(|scheme| (scheme.prefix(), start + scheme.prefix().len()));
    ends.into_iter()
        .find(|(prefix, end)| input.get(start..*end).is_some_and(|text| text.eq_ignore_ascii_case(prefix)))
        .map_or(0, |(_, end)| end)
}

/// Tells names of options from pieces of a password in which an `&` or `;` is not escaped.
#[derive(Debug, Default)]
pub(super) struct NameCheck {
    follows_secret: bool,
}

impl NameCheck {
    /// Whether a name may be shown. Names have to be given in the order of the string.
    pub(super) fn may_show(&mut self, name: &str) -> bool {
        if let Some((spec, _)) = options::find(name) {
            self.follows_secret = spec.hides_value();
            return true;
        }
        let is_plain = name.len() <= 60 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        is_plain && !self.follows_secret
    }
}

/// The ranges in order, those that touch as one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
