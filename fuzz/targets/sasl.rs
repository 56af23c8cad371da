//! Messages of somebody who logs in, on a connection to a server with the user `root` of `admin`. Input that begins with `{` is
//! extended JSON, one command after another. A payload that is text goes out as its bytes, with two words put in place:
//! `%r` is the nonce that the server gave last, `%p` the right proof for all that was said so far; text that begins with
//! `base64:` goes out as text without that. Other input is the payload of a `saslStart`, once for each mechanism.
//!
//! Nobody is logged in who has not sent a right proof.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;

use backfire_fuzz::{Connection, documents, runtime, server};
use backfire_server::Server;
use backfire_server::auth::Mechanism;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

/// Commands of one input.
const COMMANDS_MAX: usize = 12;
/// What may be said. Nothing of it changes the users, so that one server serves every input.
const COMMANDS: [&str; 7] =
    ["saslStart", "saslContinue", "hello", "isMaster", "logout", "connectionStatus", "getnonce"];
const PASSWORD: &str = "pencil";
/// `MD5("root:mongo:pencil")`, which SCRAM-SHA-1 takes for the password.
const DIGEST: &str = "e082a49f62fc85d3a8afb2667ed7768d";

thread_local! {
    static LAB: Lab = Lab::new();
}

/// A server that stays from input to input: making a user takes some thousand hashes.
struct Lab {
    runtime: Runtime,
    server: Server,
    /// Salted passwords, by mechanism and salt.
    salted: RefCell<BTreeMap<(Mechanism, String), Vec<u8>>>,
}

impl Lab {
    fn new() -> Self {
        let runtime = runtime();
        let server = runtime.block_on(async { server(true) });
        server.add_user("admin", "root", PASSWORD, &["root"]).expect("there is no user yet");
        Self { runtime, server, salted: RefCell::default() }
    }
}

/// The client's side of a conversation.
struct Client<'l> {
    lab: &'l Lab,
    mechanism: Option<Mechanism>,
    /// The first message without its header, and the server's answer.
    first: String,
    challenge: String,
    /// Whether a proof was asked for.
    proved: bool,
}

impl<'l> Client<'l> {
    fn new(lab: &'l Lab) -> Self {
        Self { lab, mechanism: None, first: String::new(), challenge: String::new(), proved: false }
    }

    fn part<'a>(&'a self, name: &str) -> &'a str {
        self.challenge.split(',').find_map(|part| part.strip_prefix(name)).unwrap_or("")
    }

    /// The payload of a text, with what it asks for put in place.
    fn payload(&mut self, text: &str) -> Vec<u8> {
        let text = text.replace("%r", self.part("r="));
        let Some((before, after)) = text.split_once(",p=%p") else { return text.into_bytes() };
        let Some(mechanism) = self.mechanism else { return text.into_bytes() };
        let (Ok(salt), Ok(iterations)) = (STANDARD.decode(self.part("s=")), self.part("i=").parse::<u32>()) else {
            return text.into_bytes();
        };
        assert!(iterations <= 15_000, "the server's own number");
        self.proved = true;
        let key = (mechanism, self.part("s=").to_owned());
        let mut salted = self.lab.salted.borrow_mut();
        let salted = salted.entry(key).or_insert_with(|| {
            let secret = match mechanism {
                Mechanism::ScramSha1 => DIGEST,
                Mechanism::ScramSha256 => PASSWORD,
            };
            mechanism.salted(secret.as_bytes(), &salt, iterations)
        });
        let client_key = mechanism.hmac(salted, b"Client Key");
        let about = format!("{},{},{before}", self.first, self.challenge);
        let signature = mechanism.hmac(&mechanism.hash(&client_key), about.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        format!("{before},p={}{after}", STANDARD.encode(proof)).into_bytes()
    }

    /// Dresses the payload of a command or of the first message in a handshake, and remembers what it says.
    fn dress(&mut self, command: &mut Document) {
        if let Ok(first) = command.get_document_mut("speculativeAuthenticate") {
            self.dress(first);
            return;
        }
        let payload = match command.get("payload") {
            Some(Bson::String(text)) => match text.strip_prefix("base64:") {
                Some(text) => {
                    let text = text.to_owned();
                    command.insert("payload", text);
                    return;
                }
                None => self.payload(&text.clone()),
            },
            Some(Bson::Binary(binary)) => binary.bytes.clone(),
            _ => return,
        };
        if let Ok(name) = command.get_str("mechanism") {
            self.mechanism = Mechanism::from_name(name);
            let text = String::from_utf8_lossy(&payload);
            self.first = text.splitn(3, ',').nth(2).unwrap_or("").to_owned();
        }
        command.insert("payload", Binary { subtype: BinarySubtype::Generic, bytes: payload });
    }

    /// Remembers what the server says.
    fn hear(&mut self, reply: &Document) {
        let reply = reply.get_document("speculativeAuthenticate").unwrap_or(reply);
        if let Some(Bson::Binary(binary)) = reply.get("payload") {
            self.challenge = String::from_utf8_lossy(&binary.bytes).into_owned();
        }
    }
}

fn commands(input: &[u8]) -> Vec<Document> {
    if input.first() == Some(&b'{') {
        let is_known = |command: &Document| command.keys().next().is_some_and(|name| COMMANDS.contains(&name.as_str()));
        return documents(input).into_iter().filter(is_known).take(COMMANDS_MAX).collect();
    }
    let payload = || Binary { subtype: BinarySubtype::Generic, bytes: input.to_vec() };
    let begins = |mechanism: Mechanism| doc! { "saslStart": 1, "mechanism": mechanism.name(), "payload": payload() };
    let goes_on = doc! { "saslContinue": 1, "conversationId": 1, "payload": payload() };
    Mechanism::ALL.into_iter().flat_map(|mechanism| [begins(mechanism), goes_on.clone()]).collect()
}

fuzz_target!(|input: &[u8]| {
    LAB.with(|lab| {
        lab.runtime.block_on(async {
            let mut connection = Connection::open(&lab.server);
            let mut client = Client::new(lab);
            for mut command in commands(input) {
                client.dress(&mut command);
                if !command.contains_key("$db") {
                    command.insert("$db", "admin");
                }
                let Ok(body) = command.to_vec() else { continue };
                let Some(reply) = connection.run(&body).await else { break };
                assert!(reply.contains_key("ok"), "{reply}");
                client.hear(&reply);
            }
            if !client.proved {
                let question = doc! { "connectionStatus": 1, "$db": "admin" }.to_vec().expect("a command");
                if let Some(reply) = connection.run(&question).await {
                    let info = reply.get_document("authInfo").expect("who it is");
                    let users = info.get_array("authenticatedUsers").expect("a list");
                    assert!(users.is_empty(), "{users:?} logged in without a proof");
                }
            }
            connection.close().await;
        });
    });
});
