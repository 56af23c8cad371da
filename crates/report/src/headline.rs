//! What a recording comes to, in plain words.

use crate::input::Recording;
use crate::story::{Story, write::Fate};
use crate::text::{grouped, many};

/// One sentence: what the write became.
pub fn headline(story: &Story) -> String {
    let m = &story.measured;
    if m.sends == 0 {
        return match m.executions {
            0 => "No write reached the server.".to_owned(),
            executions => format!("No write reached the server, in {}.", many(executions, "execution")),
        };
    }
    let became = format!(
        "{} and {}",
        many(m.sends, "send"),
        match m.copies {
            0 => "no copy".to_owned(),
            copies => many(copies, "copy"),
        }
    );
    if story.writes_total <= 1 {
        return match (m.copies, m.overlapping_copies_max) {
            (1, _) if m.sends == 1 => "One write was sent once and executed once.".to_owned(),
            (1, _) => format!("One write was sent {} and executed once.", times(m.sends)),
            (0, _) => format!("One write was sent {} and never executed.", times(m.sends)),
            (_, 0 | 1) => format!("One write became {became}; no two ran at the same time."),
            (copies, most) if copies == most => format!("One write became {became} that ran at the same time."),
            (_, most) => format!("One write became {became}; {} ran at the same time.", grouped(most)),
        };
    }
    let writes = grouped(story.writes_total);
    match (story.copies_of_one_max, m.overlapping_copies_max) {
        (0 | 1, most) => {
            format!(
                "{writes} writes became {became}; up to {} ran at the same time, no two of one write.",
                grouped(most)
            )
        }
        (of_one, most) => format!(
            "{writes} writes became {became}; up to {} ran at the same time, up to {} of one write.",
            grouped(most),
            grouped(of_one)
        ),
    }
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        number => format!("{} times", grouped(number)),
    }
}

/// What goes with the headline: a few sentences, each true by itself, the weightiest first.
pub fn sentences(story: &Story) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(fate(story));
    let more = &story.more;
    let extras = &story.measured.extras;
    if more.deserted > 0 {
        let (client, them) = if story.writes_total > 1 { ("clients", "them") } else { ("client", "it") };
        sentences.push(format!(
            "{} the {client} stopped waiting while the server went on; nothing told {them} so.",
            capital(&times(more.deserted)),
        ));
    }
    if story.group.losses > 0 {
        sentences.push(format!(
            "{} a consumer lost its partitions because it had not polled in time (max.poll.interval.ms): others ran the same \
             records beside it.",
            capital(&times(story.group.losses)),
        ));
    }
    if story.group.commits_failed > 0 {
        let they = if story.group.commits_failed == 1 { "A commit of offsets" } else { "Commits of offsets" };
        sentences
            .push(format!("{they} failed {}: what had been done was done again.", times(story.group.commits_failed)));
    }
    if story.measured.waiting_resends > 0 {
        let when = match story.fates[Fate::UnderWay.number()] {
            0 => "When the application had finished",
            _ => "In the end",
        };
        sentences.push(format!(
            "{when}, {} still waited for the session of {} original.",
            many(story.measured.waiting_resends, "resend"),
            if story.measured.waiting_resends == 1 { "its" } else { "their" },
        ));
    }
    if let Some(late @ 1..) = extras.late_copies {
        let they = if late == 1 { "it" } else { "they" };
        sentences.push(format!(
            "{} wrote after a newer one had: {they} may have undone newer data.",
            many(late, "older copy"),
        ));
    }
    if let Some(ended @ 1..) = extras.ended_at_deadline {
        sentences.push(format!("The server ended {} at the deadline (maxTimeMS).", many(ended, "operation")));
    }
    if let Some(answered @ 1..) = extras.answered_from_history {
        let was = if answered == 1 { "was" } else { "were" };
        sentences.push(format!(
            "{} {was} answered from the retry history instead of being executed again.",
            many(answered, "send")
        ));
    }
    if more.documents_committed > 0 {
        let were = if more.documents_committed == 1 { "was" } else { "were" };
        let documents = format!("{} {were}", many(more.documents_committed, "document"));
        sentences.push(match story.measured.documents {
            Some(there) => format!("{documents} committed in all; {} in the collection in the end.", are(there)),
            None => format!("{documents} committed in all."),
        });
    }
    sentences
}

fn are(number: u64) -> String {
    match number {
        1 => "1 is".to_owned(),
        number => format!("{} are", grouped(number)),
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// What became of the writes, as the application saw it.
fn fate(story: &Story) -> Option<String> {
    let executions = many(story.measured.executions, "execution");
    let count = |fate: Fate| story.fates[fate.number()];
    if story.writes_total == 1 {
        let fate = Fate::ALL.into_iter().find(|fate| count(*fate) > 0)?;
        return match fate {
            Fate::Unseen => None,
            Fate::UnderWay => Some("Its application had not finished when the recording ended.".to_owned()),
            Fate::Succeeded if story.measured.executions == 1 => {
                Some("The application's one execution succeeded.".to_owned())
            }
            Fate::Succeeded => Some(format!("The last of {executions} succeeded.")),
            Fate::Failed => Some(format!("The application failed after {executions}.")),
            Fate::DeadLetter => {
                Some(format!("The application gave up after {executions}: the record went to the dead-letter topic."))
            }
            Fate::HungUp => Some("The client closed its connections in the middle of it.".to_owned()),
        };
    }
    let of = |(fate, words): (Fate, &str)| match count(fate) {
        0 => None,
        number => Some(format!("{} {words}", grouped(number))),
    };
    let parts: Vec<String> = [
        (Fate::Succeeded, "succeeded"),
        (Fate::DeadLetter, "went to the dead-letter topic"),
        (Fate::Failed, "failed"),
        (Fate::HungUp, "were left when the client hung up"),
        (Fate::UnderWay, "were under way when the recording ended"),
    ]
    .into_iter()
    .filter_map(of)
    .collect();
    let (last, rest) = parts.split_last()?;
    Some(match rest {
        [] => format!("Of the writes, {last}."),
        rest => format!("Of the writes, {} and {last}.", rest.join(", ")),
    })
}

/// Whether all came out as predicted, in words; `None` without a prediction.
pub fn verdict(story: &Story, recording: &Recording) -> Option<(bool, String)> {
    let differences = story.differences(recording)?;
    Some(match differences.len() {
        0 => (true, "As predicted".to_owned()),
        1 => (false, "1 number differs from the prediction".to_owned()),
        number => (false, format!("{number} numbers differ from the prediction")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::measured::{Measured, More};

    fn of(sends: u64, copies: u64, most: u64) -> Story {
        let measured =
            Measured { executions: copies, sends, copies, overlapping_copies_max: most, ..Measured::default() };
        Story { measured, writes_total: 1, copies_of_one_max: most, ..Story::default() }
    }

    #[test]
    fn one_write_is_said_in_one_sentence() {
        let cases = [
            (of(0, 0, 0), "No write reached the server."),
            (of(1, 1, 1), "One write was sent once and executed once."),
            (of(2, 1, 1), "One write was sent twice and executed once."),
            (of(2, 0, 0), "One write was sent twice and never executed."),
            (of(4, 4, 1), "One write became 4 sends and 4 copies; no two ran at the same time."),
            (of(4, 2, 2), "One write became 4 sends and 2 copies that ran at the same time."),
            (of(8, 4, 4), "One write became 8 sends and 4 copies that ran at the same time."),
            (of(13, 8, 6), "One write became 13 sends and 8 copies; 6 ran at the same time."),
        ];
        for (story, says) in cases {
            assert_eq!(headline(&story), says);
        }
        let many = Story { writes_total: 5_000, copies_of_one_max: 4, ..of(40_000, 20_000, 9_216) };
        assert_eq!(
            headline(&many),
            "5,000 writes became 40,000 sends and 20,000 copies; up to 9,216 ran at the same time, up to 4 of one write."
        );
    }

    #[test]
    fn sentences_say_what_there_is_to_say() {
        assert_eq!(sentences(&of(1, 1, 1)), [] as [&str; 0]);
        let mut story = of(8, 4, 4);
        story.fates[Fate::DeadLetter.number()] = 1;
        story.more = More { documents_committed: 8, deserted: 8, unheard: 8 };
        story.measured.waiting_resends = 4;
        story.measured.documents = Some(8);
        story.measured.extras.late_copies = Some(1);
        assert_eq!(
            sentences(&story),
            [
                "The application gave up after 4 executions: the record went to the dead-letter topic.",
                "8 times the client stopped waiting while the server went on; nothing told it so.",
                "When the application had finished, 4 resends still waited for the session of their original.",
                "1 older copy wrote after a newer one had: it may have undone newer data.",
                "8 documents were committed in all; 8 are in the collection in the end.",
            ]
        );
        story.writes_total = 3;
        story.fates[Fate::Succeeded.number()] = 2;
        assert_eq!(fate(&story).as_deref(), Some("Of the writes, 2 succeeded and 1 went to the dead-letter topic."));
    }
}
