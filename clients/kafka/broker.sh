# shellcheck shell=bash disable=SC2034,SC2154
# A Kafka broker of one node, for a script to start and stop; it is sourced, not run, after clients/common.sh. The
# script sets `modules`, the folder for what is installed.
#
#   prepare_broker       installs what it needs, or skips
#   start_broker FOLDER  starts one, with its data in FOLDER, and sets `brokers` (host:port) and `broker_pid`
#   stop_broker          ends it and waits for that; kill_broker: at once, as `kill -9` does

kafka_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
broker_pid=
brokers=

prepare_broker() {
    need java
    need mvn
    local version
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ] || skip "needs Java 17 or newer, this is ${version:-unknown}"
    local stamp=$modules/.broker-from wanted try
    wanted=$(cksum <"$kafka_folder/pom.xml")
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    mkdir -p "$modules"
    for try in 1 2 3; do
        say "installing the broker, try $try (log: $modules/install.log)"
        if (cd "$kafka_folder" && mvn --batch-mode --no-transfer-progress dependency:copy-dependencies \
            -DoutputDirectory="$modules/broker") >"$modules/install.log" 2>&1; then
            echo "$wanted" >"$stamp"
            return 0
        fi
    done
    tail -n 20 "$modules/install.log" >&2
    skip "the broker could not be installed"
}

# kafka_java MEMORY CLASS ARGUMENT...
kafka_java() {
    exec java "-Xmx$1" -Xshare:auto -XX:+UseSerialGC -cp "$modules/broker/*" "${@:2}"
}

# free_port: a port that nothing listens on now.
free_port() {
    local port
    for _ in {1..50}; do
        port=$((20000 + RANDOM % 20000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return 0; }
    done
    return 1
}

start_broker() {
    local folder=$1 try
    for try in 1 2 3; do
        # A folder that is there already is a broker that comes back: with its ports and its data.
        [ -e "$folder/server.properties" ] || format_broker "$folder"
        brokers=$(sed -n 's/^advertised.listeners=PLAINTEXT:\/\///p' "$folder/server.properties")
        kafka_java 384m kafka.Kafka "$folder/server.properties" >>"$folder/broker.log" 2>&1 </dev/null &
        broker_pid=$!
        if wait_for_broker; then
            return 0
        fi
        stop_broker
        say "the broker did not start, try $try"
        rm -rf "$folder"
    done
    say "the broker does not start"
    return 1
}

format_broker() {
    local folder=$1 port controller
    mkdir -p "$folder"
    port=$(free_port)
    controller=$(free_port)
    cat >"$folder/server.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$folder/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
# A consumer that was killed is out of its group soon.
group.min.session.timeout.ms=500
auto.create.topics.enable=false
EOF
    (kafka_java 128m kafka.tools.StorageTool format -t "$(cluster_id)" -c "$folder/server.properties") \
        >"$folder/format.log" 2>&1 </dev/null || { cat "$folder/format.log" >&2; return 1; }
}

# cluster_id: 16 random bytes, as Kafka writes them; a first `-` would be read as an option.
cluster_id() {
    head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=' | sed 's/^-/_/'
}

wait_for_broker() {
    local host=${brokers%:*} port=${brokers#*:}
    for _ in {1..600}; do
        kill -0 "$broker_pid" 2>/dev/null || return 1
        if (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; then
            return 0
        fi
        sleep 0.1
    done
    return 1
}

stop_broker() {
    [ -n "$broker_pid" ] || return 0
    kill "$broker_pid" 2>/dev/null || true
    # It flushes its logs first; what does not end is ended.
    for _ in {1..200}; do
        kill -0 "$broker_pid" 2>/dev/null || break
        sleep 0.1
    done
    kill_broker
}

kill_broker() {
    [ -n "$broker_pid" ] || return 0
    kill -KILL "$broker_pid" 2>/dev/null || true
    wait "$broker_pid" 2>/dev/null || true
    broker_pid=
}
