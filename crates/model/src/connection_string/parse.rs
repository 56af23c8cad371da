//! From text to parts: scheme, user, hosts, database and the list of options, in the specification's order.

use std::ops::Range;

use super::diagnostic::{Draft, Part, Problem};
use super::host::{self, Host, decode, unescaped};
use super::mask::NameCheck;
use super::options::{self, OptionName};
use super::percent;
use super::secret::Secret;
use super::{MAX_LENGTH_BYTES, MAX_OPTIONS, Occurrence, Scheme};

/// A piece of the input and where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Piece<'a> {
    pub(super) fn span(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    /// What is before and after the one-byte character at this offset.
    pub(super) fn cut(&self, offset: usize) -> (Self, Self) {
        let before = Self { text: &self.text[..offset], at: self.at };
        let after = Self { text: &self.text[offset + 1..], at: self.at + offset + 1 };
        (before, after)
    }

    pub(super) fn split(self, separators: impl Fn(char) -> bool + 'a + Copy) -> impl Iterator<Item = Piece<'a>> {
        let mut at = self.at;
        self.text.split(separators).map(move |text| {
            let piece = Piece { text, at };
            at += text.len() + 1;
            piece
        })
    }
}

/// What the text holds; nothing of it is judged yet beyond its syntax.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) scheme: Scheme,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) hosts: Vec<Host>,
    pub(super) hosts_span: Range<usize>,
    pub(super) database: Option<String>,
    pub(super) occurrences: Vec<Occurrence>,
    /// An `@` stands among the options. If it was meant to end the password, then what reads as hosts, database and
    /// options is a piece of that password, so nothing of it may be shown.
    pub(super) is_suspect: bool,
}

/// Takes the string apart. Warnings and notes go to `drafts`.
pub(super) fn parse(input: &str, drafts: &mut Vec<Draft>) -> Result<Parts, Draft> {
    if input.len() > MAX_LENGTH_BYTES {
        let message = format!("the connection string is longer than {MAX_LENGTH_BYTES} bytes");
        return Err(Draft::error(Problem::TooLong, Part::Whole, 0..input.len(), message));
    }
    let (scheme, rest) = scheme(input)?;
    let end = rest.text.find(['/', '?']).unwrap_or(rest.text.len());
    let authority = Piece { text: &rest.text[..end], at: rest.at };
    let (path, query) = match rest.text[end..].chars().next() {
        Some('/') => {
            let (_, after) = rest.cut(end);
            match after.text.find('?') {
                Some(mark) => {
                    let (path, query) = after.cut(mark);
                    (Some(path), Some(query))
                }
                None => (Some(after), None),
            }
        }
        Some(_) => (None, Some(rest.cut(end).1)),
        None => (None, None),
    };
    let (userinfo, hosts) = match authority.text.rfind('@') {
        Some(at) => {
            let (userinfo, hosts) = authority.cut(at);
            (Some(userinfo), hosts)
        }
        None => (None, authority),
    };
    if let Some(path) = path.filter(|path| path.text.contains('@')) {
        return Err(slash_before_at(&authority, &path));
    }
    let (user, password) = match &userinfo {
        Some(userinfo) => user_and_password(userinfo, drafts)?,
        None => (None, None),
    };
    let is_suspect = query.is_some_and(|query| query.text.contains('@'));
    let cut_short = || cut_short(&authority, &rest);
    let hosts_span = hosts.span();
    if let (true, Some(path)) = (hosts.text.is_empty(), path.filter(|path| !path.text.is_empty())) {
        let whole = Piece { text: &rest.text[hosts.at - rest.at..path.span().end - rest.at], at: hosts.at };
        return Err(host::slash_in_host(&whole, !is_suspect));
    }
    let hosts = match host::parse_list(&hosts, !is_suspect) {
        Err(_) if is_suspect && userinfo.is_none() => return Err(cut_short()),
        hosts => hosts?,
    };
    let database = match path.filter(|path| !path.text.is_empty()) {
        Some(path) => Some(database(&path)?),
        None => None,
    };
    let is_cut_short = is_suspect && userinfo.is_none() && path.is_none();
    let occurrences = match query.map(|query| options(&query, drafts)).transpose() {
        Err(_) if is_cut_short => return Err(cut_short()),
        occurrences => occurrences?.unwrap_or_default(),
    };
    if is_cut_short {
        let message = "an '@' stands after the '?' and there is no user name";
        let help = "if the '?' belongs to a password, write %3F";
        drafts.push(Draft::note(Problem::UnescapedCharacter, Part::Password, hosts_span.clone(), message).help(help));
    }
    Ok(Parts { scheme, user, password, hosts, hosts_span, database, occurrences, is_suspect })
}

fn scheme(input: &str) -> Result<(Scheme, Piece<'_>), Draft> {
    for scheme in [Scheme::Mongodb, Scheme::MongodbSrv] {
        if let Some(text) = input.strip_prefix(scheme.prefix()) {
            return Ok((scheme, Piece { text, at: scheme.prefix().len() }));
        }
    }
    let span = 0..input.find("://").map_or(0, |at| at + 3);
    let trimmed = without_quotes(input);
    let message = "a connection string begins with mongodb:// or mongodb+srv://";
    let draft = Draft::error(Problem::Scheme, Part::Scheme, span, message);
    let begins = |text: &str| text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("mongodb"));
    Err(if input.is_empty() {
        draft.help("the text is empty")
    } else if trimmed.len() < input.len() && begins(trimmed) {
        draft.help("remove the spaces or quotation marks before it")
    } else if begins(input) && !input.starts_with("mongodb") {
        draft.help("write the scheme in small letters")
    } else {
        draft
    })
}

/// The text without what often comes along when a string is copied.
pub(super) fn without_quotes(input: &str) -> &str {
    input.trim_start_matches(|c: char| c.is_whitespace() || "\"'<".contains(c))
}

/// An `@` after the first `/`: that slash was meant to be a part of the user name or the password.
fn slash_before_at(authority: &Piece<'_>, path: &Piece<'_>) -> Draft {
    let part = if authority.text.contains(':') { Part::Password } else { Part::User };
    unescaped(part, path.at - 1, '/').help("write %2F; for an '@' in a database name write %40")
}

/// Hosts that are none, with an `@` after the `?`: what ended them was meant to be a part of the password.
fn cut_short(authority: &Piece<'_>, rest: &Piece<'_>) -> Draft {
    let part = if authority.text.contains(':') { Part::Password } else { Part::User };
    let end = authority.span().end;
    let character = rest.text[end - rest.at..].chars().next().unwrap_or('?');
    let help =
        format!("write {}; if no password is meant, the host or port before it is wrong", percent::escape(character));
    unescaped(part, end, character).help(help)
}

fn user_and_password(userinfo: &Piece<'_>, drafts: &mut Vec<Draft>) -> Result<(Option<String>, Option<Secret>), Draft> {
    let (user, password) = match userinfo.text.find(':') {
        Some(colon) => {
            let (user, password) = userinfo.cut(colon);
            (user, Some(password))
        }
        None => (*userinfo, None),
    };
    if user.text.is_empty() {
        let message = "there is no user name before the '@'";
        return Err(Draft::error(Problem::EmptyUser, Part::User, user.at..userinfo.span().end, message)
            .help("write the user name, or leave out all up to the '@'"));
    }
    let decoded_user = user_text(&user, Part::User, drafts)?;
    let decoded_password = match password {
        Some(password) => Some(Secret::new(user_text(&password, Part::Password, drafts)?)),
        None => None,
    };
    Ok((Some(decoded_user), decoded_password))
}

/// Decodes a user name or password.
fn user_text(piece: &Piece<'_>, part: Part, drafts: &mut Vec<Draft>) -> Result<String, Draft> {
    if let Some((offset, character)) = piece.text.char_indices().find(|(_, c)| matches!(c, '@' | ':')) {
        return Err(unescaped(part, piece.at + offset, character));
    }
    let decoded = decode(piece, part)?;
    // RFC 3986: unreserved characters, escapes, and sub-delims.
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~%!$&'()*+,;=".contains(c);
    if let Some((offset, character)) = piece.text.char_indices().find(|(_, c)| !allowed(*c)) {
        let span = piece.at + offset..piece.at + offset + character.len_utf8();
        let message = format!("the {part} holds {character:?}, which should be escaped");
        let draft = Draft::warning(Problem::UnescapedCharacter, part, span, message);
        drafts.push(draft.help(format!("write {}", percent::escape(character))).drivers("some drivers refuse it"));
    }
    if percent::looks_encoded(&decoded) {
        let message = format!("the {part} looks as if it was escaped twice: an escape remains once it is decoded");
        drafts.push(Draft::warning(Problem::EscapedTwice, part, piece.span(), message).help("escape it once"));
    }
    Ok(decoded)
}

fn database(path: &Piece<'_>) -> Result<String, Draft> {
    let name = decode(path, Part::Database)?;
    let bad = |message: String| Draft::error(Problem::BadDatabase, Part::Database, path.span(), message);
    if let Some(character) = name.chars().find(|c| "/\\ \"$\0".contains(*c)) {
        let draft = bad(format!("a database name cannot hold {character:?}"));
        let is_socket = character == '/' && name.contains(".sock");
        return Err(if is_socket { draft.help("in the path of a Unix socket write %2F for each '/'") } else { draft });
    }
    if name.starts_with('.') {
        return Err(bad("there is no database name before the '.'".to_owned()));
    }
    Ok(name)
}

fn options(query: &Piece<'_>, drafts: &mut Vec<Draft>) -> Result<Vec<Occurrence>, Draft> {
    if let Some(at) = query.text.find(';') {
        let span = query.at + at..query.at + at + 1;
        let message = "a ';' between options is an old form";
        let draft = Draft::note(Problem::LegacySeparator, Part::Whole, span, message);
        drafts.push(draft.help("write '&'; for a ';' in a value write %3B").drivers("some drivers do not split here"));
    }
    let mut found = Vec::new();
    let mut names = NameCheck::default();
    let is_suspect = query.text.contains('@');
    for option in query.split(|c| matches!(c, '&' | ';')) {
        if option.text.is_empty() {
            continue;
        }
        if found.len() == MAX_OPTIONS {
            let message = format!("the connection string has more than {MAX_OPTIONS} options");
            return Err(Draft::error(Problem::TooLong, Part::OptionName, option.span(), message));
        }
        let Some(equals) = option.text.find('=') else {
            // Not quoted: after a value with an unescaped '&' this is a piece of that value.
            let message = "an option has no '=' and no value";
            let draft = Draft::error(Problem::OptionWithoutValue, Part::OptionName, option.span(), message);
            return Err(draft.help("write name=value; for an '&' in a value write %26"));
        };
        let (name, value) = option.cut(equals);
        if name.text.is_empty() {
            let message = "an option has no name before its '='";
            return Err(Draft::error(Problem::OptionWithoutName, Part::OptionName, option.span(), message));
        }
        let known = options::find(name.text);
        let decoded = decode(&value, Part::OptionValue).map_err(|draft| match known {
            Some((spec, _)) => draft.option(spec.id),
            None => draft,
        })?;
        found.push(Occurrence {
            name: name.text.to_owned(),
            option: known.map(|(spec, _)| spec.id),
            is_deprecated_name: known.and_then(|(_, alias)| alias).is_some_and(|alias| alias.deprecated),
            value: Secret::new(decoded),
            name_span: name.span(),
            value_span: value.span(),
            may_show_name: names.may_show(name.text) && (known.is_some() || !is_suspect),
            has_plus: value.text.contains('+'),
        });
    }
    Ok(found)
}

/// The options that are known, with their occurrences.
pub(super) fn of_option(occurrences: &[Occurrence], option: OptionName) -> impl Iterator<Item = &Occurrence> {
    occurrences.iter().filter(move |occurrence| occurrence.option == Some(option))
}
