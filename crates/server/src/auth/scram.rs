//! The server's side of a SCRAM conversation, without input or output (RFC 5802 section 3).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use super::Mechanism;
use super::credentials::Credentials;

/// The longest message that is looked at.
const MESSAGE_MAX_BYTES: usize = 4096;

/// The conversation ends without success. A client is told no more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub &'static str);

/// The client's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    /// Who it says it is.
    pub user: String,
    nonce: String,
    /// What stands before the message proper; the second message must repeat it.
    header: String,
    bare: String,
}

impl ClientFirst {
    /// Reads `n,[a=user],n=user,r=nonce`.
    ///
    /// # Errors
    /// When it is not that.
    pub fn parse(message: &[u8]) -> Result<Self, Refused> {
        let text = text(message)?;
        let mut parts = text.splitn(3, ',');
        let (binding, authorization, bare) = match (parts.next(), parts.next(), parts.next()) {
            (Some(binding), Some(authorization), Some(bare)) => (binding, authorization, bare),
            _ => return Err(Refused("the first message has too few parts")),
        };
        match binding {
            // A client that could bind the channel, and thinks that the server cannot, is right.
            "n" | "y" => {}
            _ if binding.starts_with("p=") => return Err(Refused("channel binding is not supported")),
            _ => return Err(Refused("the first message begins with neither n nor y")),
        }
        let mut fields = bare.split(',');
        let (user, nonce) = match (fields.next(), fields.next(), fields.next()) {
            (Some(user), Some(nonce), None) => (user, nonce),
            _ => return Err(Refused("the first message is not a name and a nonce")),
        };
        let user = user.strip_prefix("n=").ok_or(Refused("the first message has no user name"))?;
        let nonce = nonce.strip_prefix("r=").ok_or(Refused("the first message has no nonce"))?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refused("the nonce is not one"));
        }
        let on_behalf_of = authorization.strip_prefix("a=");
        if !authorization.is_empty() && on_behalf_of != Some(user) {
            return Err(Refused("one user may not act for another"));
        }
        Ok(Self {
            user: unescaped(user)?,
            nonce: nonce.to_owned(),
            header: format!("{binding},{authorization},"),
            bare: bare.to_owned(),
        })
    }
}

/// What goes back to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The message.
    pub payload: Vec<u8>,
    /// Whether the conversation has ended with success.
    pub done: bool,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// The client has been given salt and nonce; its proof is next.
    Proof,
    /// The proof was right. A client that does not skip it sends an empty message.
    Empty,
    /// Over, well or badly.
    Over,
}

/// A conversation after the client's first message.
pub struct Conversation {
    stage: Stage,
    credentials: Credentials,
    header: String,
    nonce: String,
    /// The first two messages, which the proof is about.
    so_far: String,
    skip_empty: bool,
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conversation({})", self.credentials.mechanism.name())
    }
}

impl Conversation {
    /// Answers the first message. `nonce` is the server's part: printable, without commas. With `skip_empty` the
    /// conversation ends with the proof.
    pub fn begin(first: ClientFirst, credentials: Credentials, nonce: &str, skip_empty: bool) -> (Self, Answer) {
        let nonce = format!("{}{nonce}", first.nonce);
        let message = format!("r={nonce},s={},i={}", STANDARD.encode(&credentials.salt), credentials.iterations);
        let so_far = format!("{},{message}", first.bare);
        let conversation = Self { stage: Stage::Proof, credentials, header: first.header, nonce, so_far, skip_empty };
        (conversation, Answer { payload: message.into_bytes(), done: false })
    }

    /// Takes the next message. After an error, and after the end, it takes no more.
    ///
    /// # Errors
    /// When the message is not the one that is due, or the proof is wrong.
    pub fn step(&mut self, message: &[u8]) -> Result<Answer, Refused> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Proof => {
                let payload = self.prove(message)?;
                self.stage = if self.skip_empty { Stage::Over } else { Stage::Empty };
                Ok(Answer { payload, done: self.skip_empty })
            }
            Stage::Empty if message.is_empty() => Ok(Answer { payload: Vec::new(), done: true }),
            Stage::Empty => Err(Refused("an empty message was due")),
            Stage::Over => Err(Refused("the conversation is over")),
        }
    }

    /// Checks `c=…,r=…,p=…` and answers `v=…`.
    fn prove(&self, message: &[u8]) -> Result<Vec<u8>, Refused> {
        let text = text(message)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Refused("there is no proof"))?;
        let expected = format!("c={},r={}", STANDARD.encode(&self.header), self.nonce);
        if without_proof != expected {
            return Err(Refused("the second message belongs to another conversation"));
        }
        let proof = STANDARD.decode(proof).map_err(|_| Refused("the proof is not base64"))?;
        let mechanism = self.credentials.mechanism;
        let about = format!("{},{without_proof}", self.so_far);
        let signature = mechanism.hmac(&self.credentials.stored_key, about.as_bytes());
        if proof.len() != signature.len() {
            return Err(Refused("the proof has the wrong length"));
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if !bool::from(mechanism.hash(&client_key).ct_eq(&self.credentials.stored_key)) {
            return Err(Refused("the proof is wrong"));
        }
        let verifier = mechanism.hmac(&self.credentials.server_key, about.as_bytes());
        Ok(format!("v={}", STANDARD.encode(verifier)).into_bytes())
    }

    /// The mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.credentials.mechanism
    }
}

fn text(message: &[u8]) -> Result<&str, Refused> {
    if message.len() > MESSAGE_MAX_BYTES {
        return Err(Refused("the message is too long"));
    }
    std::str::from_utf8(message).map_err(|_| Refused("the message is not UTF-8"))
}

/// A user name, in which `=2C` stands for a comma and `=3D` for an equals sign.
fn unescaped(name: &str) -> Result<String, Refused> {
    let mut out = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('=') {
        out.push_str(before);
        let (letter, after) = match (after.strip_prefix("2C"), after.strip_prefix("3D")) {
            (Some(after), _) => (',', after),
            (_, Some(after)) => ('=', after),
            _ => return Err(Refused("the user name is not escaped")),
        };
        out.push(letter);
        rest = after;
    }
    out.push_str(rest);
    if out.is_empty() { Err(Refused("the user name is empty")) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::super::credentials::Password;
    use super::*;
    use proptest::prelude::*;

    /// A conversation of user `user` with the password `pencil`: mechanism, iterations, the server's part of the nonce,
    /// the salt, and the four messages.
    type Example = (Mechanism, u32, &'static str, &'static str, [&'static str; 4]);

    /// Sources: the drivers' authentication specification; the second is the example of RFC 7677 as well.
    const EXAMPLES: [Example; 2] = [
        (
            Mechanism::ScramSha1,
            10_000,
            "Ho+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE",
            "rQ9ZY3MntBeuP3E1TDVC4w==",
            [
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,p=MC2T8BvbmWRckDw8oWl5IVghwCY=",
                "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=",
            ],
        ),
        (
            Mechanism::ScramSha256,
            4096,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            [
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ],
        ),
    ];

    fn begin(example: &Example, skip_empty: bool) -> (Conversation, Answer) {
        let (mechanism, iterations, nonce, salt, [first, ..]) = *example;
        let salt = STANDARD.decode(salt).unwrap();
        let credentials =
            Credentials::with_iterations(mechanism, "user", Password::Plain("pencil"), salt, iterations).unwrap();
        Conversation::begin(ClientFirst::parse(first.as_bytes()).unwrap(), credentials, nonce, skip_empty)
    }

    #[test]
    fn the_examples_of_the_specifications_hold() {
        for example in &EXAMPLES {
            let [_, challenge, proof, verifier] = example.4;
            let (mut conversation, answer) = begin(example, true);
            assert_eq!(answer, Answer { payload: challenge.into(), done: false });
            let last = conversation.step(proof.as_bytes());
            assert_eq!(last, Ok(Answer { payload: verifier.into(), done: true }));
            let (mut conversation, _) = begin(example, false);
            assert!(!conversation.step(proof.as_bytes()).unwrap().done);
            assert_eq!(conversation.step(b""), Ok(Answer { payload: Vec::new(), done: true }));
        }
    }

    #[test]
    fn what_is_repeated_changed_or_out_of_order_is_refused() {
        let [_, _, proof, _] = EXAMPLES[0].4;
        let changed = [
            String::new(),
            EXAMPLES[0].4[0].to_owned(),
            proof.replace("MC2T", "MC2U"),
            proof.replace("p=MC2T", "p=~~~~"),
            proof.replace("p=MC2T8Bvb", "p="),
            proof.replace("biws", "eSws"),
            proof.replace("r=fyko", "r=gyko"),
            proof.replace(",p=", ",x=1,p="),
            proof.replace(",p=", ",q="),
        ];
        for message in changed {
            let (mut conversation, _) = begin(&EXAMPLES[0], true);
            assert!(conversation.step(message.as_bytes()).is_err(), "{message}");
            // It is over then: what would have been right comes too late.
            assert!(conversation.step(proof.as_bytes()).is_err(), "{message}");
        }
        for skip_empty in [true, false] {
            let (mut conversation, _) = begin(&EXAMPLES[0], skip_empty);
            conversation.step(proof.as_bytes()).unwrap();
            assert!(conversation.step(proof.as_bytes()).is_err(), "the proof is good for once");
        }
    }

    #[test]
    fn first_messages_are_read_strictly() {
        let user = |message: &str| ClientFirst::parse(message.as_bytes()).map(|first| first.user).ok();
        for (message, expected) in [
            ("n,,n=a=2Cb=3Dc,r=x", Some("a,b=c")),
            ("y,,n=u,r=x", Some("u")),
            ("n,a=u,n=u,r=x", Some("u")),
            ("n,a=v,n=u,r=x", None),
            ("p=tls-unique,,n=u,r=x", None),
            ("n,,n=a=2cb,r=x", None),
            ("n,,n=a=,r=x", None),
            ("n,,n=,r=x", None),
            ("n,,n=u,r=", None),
            ("n,,n=u,r=a b", None),
            ("n,,r=x,n=u", None),
            ("n,,m=1,n=u,r=x", None),
            ("n,,n=u,r=x,m=1", None),
            ("n,,n=u", None),
            ("", None),
        ] {
            assert_eq!(user(message).as_deref(), expected, "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_message_panics_or_gets_through(
            first in proptest::collection::vec(any::<u8>(), 0..60),
            text in "[nyp=,arm23CD ]{0,30}",
            last in "(c=biws,)?(r=[!-~]{0,20})?(,p=[A-Za-z0-9+/=]{0,40})?",
        ) {
            let _ = ClientFirst::parse(&first);
            let _ = ClientFirst::parse(text.as_bytes());
            let (mut conversation, _) = begin(&EXAMPLES_FAST, false);
            prop_assert!(conversation.step(last.as_bytes()).is_err());
            prop_assert!(conversation.step(b"").is_err());
        }
    }

    /// The first example with one iteration.
    const EXAMPLES_FAST: Example = (EXAMPLES[0].0, 1, EXAMPLES[0].2, EXAMPLES[0].3, EXAMPLES[0].4);
}
