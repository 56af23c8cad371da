//! Discovery, monitoring, selection.

use std::time::Duration;

use bson::{Document, doc};

use backfire_driver::events::TopologyEvent;
use backfire_driver::settings::MonitoringMode;
use backfire_driver::{ClientSettings, Event, ReadMode, ReadPreference, ServerAddress, TopologyType};

use crate::fake::*;

async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn member(host: &str, more: Document) -> Document {
    let hosts = ["a:27017", "b:27017", "c:27017"];
    with(primary(), with(doc! {"hosts": hosts.to_vec(), "me": format!("{host}:27017")}, more))
}

fn secondary(host: &str) -> Document {
    member(host, doc! {"ismaster": false, "secondary": true})
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_is_found_from_one_seed() {
    let fake = Fake::new([("a", secondary("a")), ("b", member("b", doc! {})), ("c", secondary("c"))]);
    let client = fake.client(Fake::settings());
    client.database("db").collection("c").insert_one(doc! {"x": 1}).await.unwrap();
    assert_eq!(fake.seen()[0].node, "b");
    sleep_ms(10).await;
    let topology = client.topology();
    assert_eq!((topology.topology_type(), topology.servers().count()), (TopologyType::ReplicaSetWithPrimary, 3));
    let from = client.database("db").collection("c").with_read_preference(ReadPreference::mode(ReadMode::Secondary));
    for _ in 0..8 {
        from.find_one(doc! {}).await.unwrap();
    }
    let nodes: std::collections::BTreeSet<_> = fake.seen().into_iter().skip(1).map(|seen| seen.node).collect();
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["a", "c"], "both secondaries take their share");
}

#[tokio::test(start_paused = true)]
async fn polling_asks_every_ten_seconds_and_streaming_waits_at_the_server() {
    for (hello, mode, expected) in [
        (primary(), MonitoringMode::Auto, vec![0, 10_000, 20_000, 30_000]),
        (streaming_primary(), MonitoringMode::Poll, vec![0, 10_000, 20_000, 30_000]),
        // The monitor: greeting, then one request after the other. The other connection measures round trips.
        (streaming_primary(), MonitoringMode::Auto, vec![0, 0, 0, 10_000, 10_000, 20_000, 20_000, 30_000, 30_000]),
    ] {
        let fake = Fake::single(hello);
        let _client = fake.client(ClientSettings { monitoring_mode: mode, ..Fake::settings() });
        sleep_ms(35_000).await;
        let times: Vec<_> = fake.hellos().iter().map(|hello| hello.at_ms).collect();
        assert_eq!(times, expected, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_monitor_hears_of_a_change_at_once() {
    let fake = Fake::single(streaming_primary());
    let client = fake.client(Fake::settings());
    sleep_ms(3000).await;
    assert!(client.topology().primary().is_some());
    fake.hello("a", with(secondary("a"), doc! {"hosts": ["a:27017"], "topologyVersion": topology_version(2)}));
    sleep_ms(1).await;
    assert!(client.topology().primary().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_may_be_silent_for_ten_seconds_or_twenty_when_streaming() {
    for (hello, lost_at) in [(primary(), 20_000), (streaming_primary(), 30_000)] {
        let fake = Fake::single(hello);
        let client = fake.client(Fake::settings());
        sleep_ms(5000).await;
        fake.mood("a", Mood::HelloStalls);
        sleep_ms(lost_at - 5000 - 1).await;
        assert!(client.topology().primary().is_some(), "before {lost_at}");
        sleep_ms(2).await;
        assert!(client.topology().primary().is_none(), "after {lost_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn selection_gives_up_in_its_time_and_asks_every_half_second() {
    let fake = Fake::single(primary());
    fake.mood("a", Mood::Refuses);
    let client = fake.client(ClientSettings { server_selection_timeout: Duration::from_secs(2), ..Fake::settings() });
    let error = client.database("db").collection("c").insert_one(doc! {"x": 1}).await.unwrap_err();
    assert_eq!((error.java_class(), fake.now_ms()), ("MongoTimeoutException", 2000));
    assert!(error.to_string().contains("cannot open a connection"), "{error}");
    let failed = |(at_ms, event): &(u64, Event)| match event {
        Event::Topology(TopologyEvent::HeartbeatFailed { .. }) => Some(*at_ms),
        _ => None,
    };
    assert_eq!(fake.log().iter().filter_map(failed).collect::<Vec<_>>(), [0, 500, 1000, 1500]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_waits_for_a_primary() {
    let fake = Fake::new([("a", secondary("a")), ("b", secondary("b")), ("c", secondary("c"))]);
    let client = fake.client(Fake::settings());
    let elected = fake.clone();
    tokio::spawn(async move {
        sleep_ms(3250).await;
        elected.hello("b", member("b", doc! {}));
    });
    client.database("db").collection("c").insert_one(doc! {"x": 1}).await.unwrap();
    let seen = fake.seen();
    assert_eq!((seen[0].node.as_str(), seen[0].at_ms), ("b", 3500), "found by the next check");
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_makes_the_server_unknown_and_ends_its_check() {
    let fake = Fake::single(streaming_primary());
    let client = fake.client(ClientSettings { retry_writes: false, ..Fake::settings() });
    fake.script([Step::Reset]);
    assert!(client.database("db").collection("c").insert_one(doc! {"x": 1}).await.is_err());
    assert!(client.topology().primary().is_none());
    sleep_ms(1).await;
    let open_now = fake.open();
    client.database("db").collection("c").insert_one(doc! {"x": 1}).await.unwrap();
    assert_eq!(fake.seen()[1].at_ms, 500);
    assert_eq!(open_now, 1, "only the connection that measures round trips is left");
}

#[tokio::test(start_paused = true)]
async fn errors_of_an_older_state_are_ignored() {
    let refused = |counter| {
        let error = error(10107, "NotMaster", &[]);
        Step::Reply(with(error, doc! {"topologyVersion": topology_version(counter)}))
    };
    for (counter, still_known) in [(0, true), (1, true), (2, false)] {
        let fake = Fake::single(streaming_primary());
        let client = fake.client(Fake::settings());
        fake.script([refused(counter)]);
        assert!(client.database("db").run_command(doc! {"ping": 1}).await.is_err());
        assert_eq!(client.topology().primary().is_some(), still_known, "counter {counter}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_shutdown_clears_the_pool_of_a_current_server() {
    for (code, wire_version, cleared) in
        [(10107, 9, false), (11602, 9, false), (91, 9, true), (11600, 9, true), (10107, 7, true)]
    {
        let fake = Fake::single(with(primary(), doc! {"maxWireVersion": wire_version}));
        let client = fake.client(Fake::settings());
        fake.script([Step::Reply(error(code, "x", &[]))]);
        assert!(client.database("db").run_command(doc! {"ping": 1}).await.is_err());
        assert!(client.topology().primary().is_none());
        assert_eq!(format!("{:?}", fake.log()).contains("PoolCleared"), cleared, "{code} {wire_version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_direct_connection_asks_any_member() {
    let fake = Fake::new([("a", secondary("a"))]);
    let client = fake.client(ClientSettings::new([ServerAddress::new("a", 27017)]));
    client.database("db").collection("c").find_one(doc! {}).await.unwrap();
    assert_eq!(client.topology().topology_type(), TopologyType::Single);
    assert_eq!(fake.seen()[0].command.get_document("$readPreference").unwrap(), &doc! {"mode": "primaryPreferred"});
}

#[tokio::test(start_paused = true)]
async fn the_latency_window_leaves_far_members_out() {
    let fake = Fake::new([("a", member("a", doc! {})), ("b", secondary("b")), ("c", secondary("c"))]);
    for (host, ms) in [("a", 5), ("b", 50), ("c", 10)] {
        fake.latency(host, ms);
    }
    let client = fake.client(Fake::settings());
    sleep_ms(1000).await;
    let near = client.database("db").collection("c").with_read_preference(ReadPreference::mode(ReadMode::Nearest));
    for _ in 0..10 {
        near.find_one(doc! {}).await.unwrap();
    }
    let nodes: std::collections::BTreeSet<_> = fake.seen().into_iter().map(|seen| seen.node).collect();
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_when_a_client_is_closed_or_dropped() {
    for close in [true, false] {
        let fake = Fake::single(streaming_primary());
        let client = fake.client(ClientSettings { min_pool_size: 2, ..Fake::settings() });
        client.database("db").run_command(doc! {"ping": 1}).await.unwrap();
        sleep_ms(100).await;
        assert_eq!(fake.open(), 4, "monitor, round trips, two in the pool");
        let collection = client.database("db").collection("c");
        if close {
            client.close().await;
            assert_eq!(collection.insert_one(doc! {}).await.unwrap_err().java_class(), "IllegalStateException");
        }
        drop((client, collection));
        sleep_ms(1).await;
        assert_eq!(fake.open(), 0, "closed: {close}");
        let before = fake.hellos().len();
        sleep_ms(60_000).await;
        assert_eq!(fake.hellos().len(), before, "no task goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_story() {
    async fn run() -> Vec<String> {
        let fake = Fake::new([("a", secondary("a")), ("b", member("b", doc! {})), ("c", secondary("c"))]);
        let client = fake.client(ClientSettings { socket_timeout: Duration::from_secs(1), ..Fake::settings() });
        fake.script_on("b", [Step::Stall, Step::Reset]);
        let coll = client.database("db").collection("c");
        let near = coll.clone().with_read_preference(ReadPreference::mode(ReadMode::Nearest));
        for n in 0..5 {
            let _ = coll.insert_one(doc! {"n": n}).await;
            let _ = near.find_one(doc! {}).await;
        }
        client.close().await;
        fake.log()
            .into_iter()
            .map(|(at_ms, event)| format!("{at_ms} {event:?}").replace(char::is_whitespace, ""))
            .collect()
    }
    let (one, two) = (run().await, run().await);
    // Instants differ from run to run; everything else must not.
    let without_instants = |story: Vec<String>| -> Vec<String> {
        story.into_iter().filter(|line| !line.contains("last_update")).collect()
    };
    assert_eq!(without_instants(one), without_instants(two));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_waits_is_not_asked_without_end() {
    let fake = Fake::single(streaming_primary());
    fake.mood("a", Mood::NeverWaits);
    let client = fake.client(Fake::settings());
    sleep_ms(25_000).await;
    assert!(client.topology().primary().is_some());
    assert!(fake.hellos().len() < 20, "{}", fake.hellos().len());
}
