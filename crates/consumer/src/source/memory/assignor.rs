//! Partitions to members, as Kafka's range assignor with the eager protocol.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::TopicPartition;

/// What each member gets, in the order of `members`: for each topic a run of partitions, the first members one more
/// where it does not come out even. `partitions` gives the number of a topic.
pub(super) fn range(members: &[Arc<[Arc<str>]>], partitions: impl Fn(&str) -> i32) -> Vec<Vec<TopicPartition>> {
    let mut by_topic: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
    for (index, topics) in members.iter().enumerate() {
        for topic in topics.iter() {
            by_topic.entry(topic).or_default().push(index);
        }
    }
    let mut assigned = vec![Vec::new(); members.len()];
    for (topic, subscribers) in by_topic {
        let count = partitions(topic).max(0);
        // A group has fewer members than an `i32` holds: there is a limit.
        let each = count / subscribers.len() as i32;
        let more = (count % subscribers.len() as i32) as usize;
        let mut next = 0;
        for (rank, member) in subscribers.into_iter().enumerate() {
            let end = next + each + i32::from(rank < more);
            assigned[member].extend((next..end).map(|partition| TopicPartition::new(Arc::clone(topic), partition)));
            next = end;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(members: &[&str], expected: &str) {
        let members: Vec<Arc<[Arc<str>]>> =
            members.iter().map(|topics| topics.split_whitespace().map(Arc::from).collect()).collect();
        // Topic `t7` has seven partitions.
        let partitions = |topic: &str| topic[1..].parse().unwrap();
        let text: Vec<String> = range(&members, partitions)
            .iter()
            .map(|parts| parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(text.join(" | "), expected, "{members:?}");
    }

    #[test]
    fn runs_of_partitions_per_topic() {
        check(&["t3"], "t3-0 t3-1 t3-2");
        check(&["t3", "t3"], "t3-0 t3-1 | t3-2");
        check(&["t7", "t7", "t7"], "t7-0 t7-1 t7-2 | t7-3 t7-4 | t7-5 t7-6");
        check(&["t1", "t1"], "t1-0 | ");
        check(&["t2 u2", "t2 u2"], "t2-0 u2-0 | t2-1 u2-1");
        check(&["t2", "u2"], "t2-0 t2-1 | u2-0 u2-1");
        check(&[], "");
    }
}
