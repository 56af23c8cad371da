//! What librdkafka's errors mean for a consumer.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::dead_letters::PublishError;
use crate::source::{CommitError, SourceError};

/// What an error of a poll means.
#[derive(Debug)]
pub(super) enum Meaning {
    /// Told again by other means, or cured by the client itself.
    Nothing,
    /// A broker cannot be reached; perhaps none can.
    Unreachable(String),
    /// The poll fails.
    Fails(SourceError),
}

/// What an error of a poll means. `topics` are those subscribed to.
pub(super) fn of_poll(error: &KafkaError, topics: &[String]) -> Meaning {
    let broker = |transient| Meaning::Fails(SourceError::Broker { message: error.to_string(), transient });
    let (code, is_fatal) = match error {
        KafkaError::MessageConsumption(code) | KafkaError::Global(code) => (*code, false),
        KafkaError::MessageConsumptionFatal(code) => (*code, true),
        KafkaError::PartitionEOF(_) | KafkaError::NoMessageReceived => return Meaning::Nothing,
        _ => return broker(false),
    };
    match code {
        // The partitions are told as lost next.
        Code::PollExceeded => Meaning::Nothing,
        // Whether it was the only one is not told for sure, so it is asked.
        Code::AllBrokersDown | Code::BrokerTransportFailure | Code::Resolve => Meaning::Unreachable(error.to_string()),
        Code::OperationTimedOut => Meaning::Nothing,
        Code::UnknownTopic | Code::UnknownTopicOrPartition => {
            Meaning::Fails(SourceError::UnknownTopic { topic: topics.join(", ") })
        }
        Code::FencedInstanceId => Meaning::Fails(SourceError::Fenced { instance: String::new() }),
        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::Authentication
        | Code::AutoOffsetReset
        | Code::InconsistentGroupProtocol => broker(false),
        _ => broker(!is_fatal),
    }
}

/// What an error of a commit means.
pub(super) fn of_commit(error: &KafkaError) -> CommitError {
    match error {
        KafkaError::ConsumerCommit(
            Code::IllegalGeneration | Code::UnknownMemberId | Code::FencedInstanceId | Code::AssignmentLost,
        ) => CommitError::CommitFailed,
        _ => CommitError::Other { message: error.to_string() },
    }
}

impl From<KafkaError> for PublishError {
    fn from(error: KafkaError) -> Self {
        Self { message: error.to_string() }
    }
}

/// An error of a call that is not a poll.
pub(super) fn of_call(error: &KafkaError) -> SourceError {
    SourceError::Broker { message: error.to_string(), transient: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_a_meaning() {
        let topics = ["orders".to_owned()];
        let poll = |code| of_poll(&KafkaError::MessageConsumption(code), &topics);
        for code in [Code::PollExceeded, Code::OperationTimedOut] {
            assert!(matches!(poll(code), Meaning::Nothing), "{code:?}");
        }
        for code in [Code::AllBrokersDown, Code::BrokerTransportFailure, Code::Resolve] {
            assert!(matches!(poll(code), Meaning::Unreachable(_)), "{code:?}");
        }
        assert!(matches!(poll(Code::UnknownTopicOrPartition),
            Meaning::Fails(SourceError::UnknownTopic { topic }) if topic == "orders"));
        for (code, transient) in [(Code::TopicAuthorizationFailed, false), (Code::NotCoordinator, true)] {
            let Meaning::Fails(error) = poll(code) else { panic!("{code:?}") };
            assert_eq!(error.is_transient(), transient, "{code:?}");
        }
        let commit = |code| of_commit(&KafkaError::ConsumerCommit(code));
        assert_eq!(commit(Code::IllegalGeneration), CommitError::CommitFailed);
        assert!(matches!(commit(Code::RequestTimedOut), CommitError::Other { .. }));
    }
}
