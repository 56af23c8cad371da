//! What a consumer does, whatever its source is: one set of tests for topics in memory, for librdkafka's mock cluster
//! and for a real broker (feature `kafka`; the broker that `BACKFIRE_KAFKA_BROKERS` names).

mod cases;
#[cfg(feature = "kafka")]
mod kafka;
mod world;

/// The same tests in each world.
macro_rules! in_each_world {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                crate::cases::$name(&crate::world::Memory::new()).await;
            })*
        }

        #[cfg(feature = "kafka")]
        mod mock_cluster {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::cases::$name(&crate::kafka::Kafka::mock()).await;
            })*
        }

        #[cfg(feature = "kafka")]
        mod real_broker {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(world) = crate::kafka::Kafka::real() {
                    crate::cases::$name(&world).await;
                }
            })*
        }
    };
}

in_each_world!(
    every_record_is_executed_in_order_and_committed,
    a_record_that_fails_becomes_a_dead_letter_with_its_headers,
    a_dead_letter_goes_to_any_partition_where_its_own_is_missing,
    a_record_that_waits_holds_up_its_own_partition_only,
    an_execution_longer_than_the_poll_interval_keeps_its_partition,
    spring_loses_its_partition_when_an_execution_is_longer_than_the_poll_interval,
    a_consumer_that_joins_takes_over_and_nothing_is_lost,
    what_a_dropped_consumer_had_begun_is_delivered_again,
    a_batch_is_executed_and_committed_as_one,
    spring_seeks_back_to_the_failed_record,
);
