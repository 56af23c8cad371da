//! What copies and resends do, in words: what several do alike in one moment is one sentence.

use std::collections::BTreeMap;

use backfire_model::event::Wait;

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// The first send of a copy.
    Copy(u64),
    /// A later one.
    ResendOf(u64),
}

/// What it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// Waits, while so many copies run; for a ticket, while so many have one.
    Waits(Wait, u64),
    Commits {
        documents: u64,
    },
    AnsweredFromHistory,
    EndsWith {
        code: i32,
        code_name: String,
    },
    ConnectionClosed,
    /// Ends well, and its client is gone.
    Unheard,
}

/// One thing to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Of(Who, Deed),
    Other(String),
}

impl Said {
    pub(super) fn other(text: impl Into<String>) -> Self {
        Said::Other(text.into())
    }
}

/// Everything that is said of one moment, in the order in which it came up first.
pub(super) fn sentences(said: &[Said]) -> Vec<String> {
    let mut done = vec![false; said.len()];
    let mut sentences = Vec::new();
    for at in 0..said.len() {
        if std::mem::replace(&mut done[at], true) {
            continue;
        }
        match &said[at] {
            Said::Other(text) => {
                for later in at + 1..said.len() {
                    done[later] |= said[later] == said[at];
                }
                sentences.push(text.clone());
            }
            Said::Of(who, Deed::Commits { .. }) => {
                let resend = matches!(who, Who::ResendOf(_));
                let (mut documents, mut members) = (BTreeMap::<Who, u64>::new(), Vec::new());
                for (later, said) in said.iter().enumerate().skip(at) {
                    if let Said::Of(who, Deed::Commits { documents: more }) = said
                        && matches!(who, Who::ResendOf(_)) == resend
                    {
                        done[later] = true;
                        *documents.entry(*who).or_default() += more;
                        if !members.contains(who) {
                            members.push(*who);
                        }
                    }
                }
                sentences.extend(commits(&documents, &members));
            }
            Said::Of(who, deed) => {
                let mut members = vec![*who];
                for (later, said) in said.iter().enumerate().skip(at + 1) {
                    if let Said::Of(other, same) = said
                        && alike(deed, same)
                        && (matches!(deed, Deed::Unheard) || same_kind(*who, *other))
                    {
                        done[later] = true;
                        members.push(*other);
                    }
                }
                sentences.push(sentence(&members, deed));
            }
        }
    }
    // Who is left to hear of it comes last.
    sentences.sort_by_key(|sentence| sentence.starts_with("no client"));
    sentences
}

fn same_kind(one: Who, other: Who) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

fn alike(one: &Deed, other: &Deed) -> bool {
    match (one, other) {
        // How many run has changed with each of them; what counts is the last.
        (Deed::Waits(..), Deed::Waits(..)) => false,
        (one, other) => one == other,
    }
}

/// One sentence per number of documents.
fn commits(documents: &BTreeMap<Who, u64>, members: &[Who]) -> Vec<String> {
    let mut groups: Vec<(u64, Vec<Who>)> = Vec::new();
    for who in members {
        let number = documents[who];
        match groups.iter_mut().find(|(documents, _)| *documents == number) {
            Some((_, group)) => group.push(*who),
            None => groups.push((number, vec![*who])),
        }
    }
    let tell = |(number, group): (u64, Vec<Who>)| {
        let (verb, each) = if group.len() == 1 { ("commits", "") } else { ("commit", " each") };
        match number {
            1 => format!("{} {verb}", subject(&group)),
            many => format!("{} {verb} {many} documents{each}", subject(&group)),
        }
    };
    groups.into_iter().map(tell).collect()
}

fn sentence(members: &[Who], deed: &Deed) -> String {
    let who = subject(members);
    let one = members.len() == 1;
    let (is, ends) = if one { ("is", "ends") } else { ("are", "end") };
    match deed {
        Deed::Waits(wait, copies) => {
            let running = match copies {
                1 => "1 copy runs".to_owned(),
                many => format!("{many} copies run"),
            };
            match wait {
                Wait::Session => format!("{who} waits for its session"),
                Wait::FailPoint => format!("{who} is held by the fail point ({running})"),
                Wait::Ticket => match copies {
                    0 => format!("{who} waits for a ticket (no copy has one)"),
                    1 => format!("{who} waits for a ticket (1 copy has one)"),
                    many => format!("{who} waits for a ticket ({many} copies have one)"),
                },
                Wait::Lock => format!("{who} waits for a lock"),
                Wait::WriteConflict => format!("{who} meets a write conflict ({running})"),
                Wait::EngineStall => format!("{who} stands still in the engine ({running})"),
                Wait::InterruptibleStall => format!("{who} stands still ({running})"),
            }
        }
        Deed::AnsweredFromHistory => format!("{who} {is} answered from history"),
        Deed::EndsWith { code, code_name } => format!("{who} {ends} with {code_name} ({code})"),
        Deed::ConnectionClosed => format!("{who}: the connection is closed without a reply"),
        Deed::Unheard if one => "no client hears the reply".to_owned(),
        Deed::Unheard => format!("no client hears these {} replies", members.len()),
        Deed::Commits { .. } => format!("{who} commits"),
    }
}

/// `copy 1`, `copies 1 to 4`, `the resends of copies 1 and 3`.
fn subject(members: &[Who]) -> String {
    let numbers: Vec<u64> = members
        .iter()
        .map(|who| match who {
            Who::Copy(number) | Who::ResendOf(number) => *number,
        })
        .collect();
    let copies = match numbers.as_slice() {
        [one] => format!("copy {one}"),
        many => format!("copies {}", list(many)),
    };
    match members {
        [Who::ResendOf(_)] => format!("the resend of {copies}"),
        [Who::ResendOf(_), ..] => format!("the resends of {copies}"),
        _ => copies,
    }
}

/// `1 to 4`, `1 and 3`, `1 to 3 and 5`.
fn list(numbers: &[u64]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut parts: Vec<String> = Vec::new();
    for run in sorted.chunk_by(|one, next| one + 1 == *next) {
        match run {
            [first, .., last] if run.len() > 2 => parts.push(format!("{first} to {last}")),
            few => parts.extend(few.iter().map(u64::to_string)),
        }
    }
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => parts.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_as_people_do() {
        let cases: [(&[u64], &str); 5] = [
            (&[4, 1, 2, 3], "1 to 4"),
            (&[1, 3], "1 and 3"),
            (&[1, 2], "1 and 2"),
            (&[1, 2, 3, 5], "1 to 3 and 5"),
            (&[1, 3, 5, 6, 7, 9], "1, 3, 5 to 7 and 9"),
        ];
        for (numbers, text) in cases {
            assert_eq!(list(numbers), text);
        }
    }

    #[test]
    fn what_several_do_alike_is_said_once() {
        let commit = |copy| Said::Of(Who::Copy(copy), Deed::Commits { documents: 1 });
        let unheard = |who| Said::Of(who, Deed::Unheard);
        let replay = |copy| Said::Of(Who::ResendOf(copy), Deed::AnsweredFromHistory);
        let said = [
            Said::other("the stall ends"),
            commit(1),
            unheard(Who::Copy(1)),
            Said::other("the stall ends"),
            commit(2),
            commit(2),
            unheard(Who::Copy(2)),
            commit(3),
            replay(1),
            unheard(Who::ResendOf(1)),
            replay(2),
        ];
        assert_eq!(
            sentences(&said),
            [
                "the stall ends",
                "copies 1 and 3 commit",
                "copy 2 commits 2 documents",
                "the resends of copies 1 and 2 are answered from history",
                "no client hears these 3 replies",
            ]
        );
    }
}
