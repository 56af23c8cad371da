//! The client's side of a SCRAM conversation, without input or output.
//!
//! Source: RFC 5802, RFC 7677, and the
//! [authentication specification](https://github.com/mongodb/specifications/blob/master/source/auth/auth.md).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use parking_lot::Mutex;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The fewest iterations that a server may ask for, and the most: it could keep the client busy for hours.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=1_000_000;
/// The longest message of a server that is looked at.
const MESSAGE_MAX_BYTES: usize = 4096;

/// How a password is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScramMechanism {
    /// `SCRAM-SHA-1`.
    Sha1,
    /// `SCRAM-SHA-256`.
    Sha256,
}

impl ScramMechanism {
    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        fn of<M: Mac + KeyInit>(key: &[u8], bytes: &[u8]) -> Vec<u8> {
            let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(bytes);
            mac.finalize().into_bytes().to_vec()
        }
        match self {
            Self::Sha1 => of::<Hmac<Sha1>>(key, bytes),
            Self::Sha256 => of::<Hmac<Sha256>>(key, bytes),
        }
    }

    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Self::Sha1 => pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(password, salt, iterations).to_vec(),
            Self::Sha256 => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec(),
        }
    }
}

/// Why a conversation cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScramError {
    /// The password has characters that SASLprep does not allow.
    Password,
    /// The server's message is not what is due.
    Message(&'static str),
    /// The server does not know the password.
    Signature,
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password => f.write_str("the password has characters that SASLprep does not allow"),
            Self::Message(what) => f.write_str(what),
            Self::Signature => f.write_str("the server's signature is wrong: it does not know the password"),
        }
    }
}

impl std::error::Error for ScramError {}

/// Keys that were derived from a password: deriving them is meant to be slow.
struct Keys {
    mechanism: ScramMechanism,
    salt: Vec<u8>,
    iterations: u32,
    client_key: Vec<u8>,
    server_key: Vec<u8>,
}

/// The keys of a client's connections to one server are the same. The newest are kept.
#[derive(Default)]
pub struct KeyCache(Mutex<Option<Keys>>);

impl fmt::Debug for KeyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCache")
    }
}

enum Stage {
    Challenge,
    Signature { expected: Vec<u8> },
    Over,
}

/// A conversation. Its `Debug` shows the mechanism only.
pub struct ScramClient {
    mechanism: ScramMechanism,
    /// What the keys are derived from.
    secret: String,
    nonce: String,
    first_bare: String,
    stage: Stage,
}

impl fmt::Debug for ScramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramClient({})", self.mechanism.name())
    }
}

impl ScramClient {
    /// A conversation about `user`. `nonce` is random: printable, without commas.
    ///
    /// # Errors
    /// When the mechanism cannot have the password.
    pub fn new(mechanism: ScramMechanism, user: &str, password: &str, nonce: &str) -> Result<Self, ScramError> {
        let secret = match mechanism {
            // The digest that the server keeps in the password's place since its first versions.
            ScramMechanism::Sha1 => {
                let digest = Md5::digest(format!("{user}:mongo:{password}"));
                digest.iter().map(|byte| format!("{byte:02x}")).collect()
            }
            ScramMechanism::Sha256 => stringprep::saslprep(password).map_err(|_| ScramError::Password)?.into_owned(),
        };
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        Ok(Self { mechanism, secret, nonce: nonce.to_owned(), first_bare, stage: Stage::Challenge })
    }

    /// The mechanism.
    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    /// The first message.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare).into_bytes()
    }

    /// Takes the server's challenge `r=…,s=…,i=…` and answers with the proof.
    ///
    /// # Errors
    /// When it is no challenge, or not one to this client.
    pub fn prove(&mut self, challenge: &[u8], cache: &KeyCache) -> Result<Vec<u8>, ScramError> {
        if !matches!(std::mem::replace(&mut self.stage, Stage::Over), Stage::Challenge) {
            return Err(ScramError::Message("the server challenges twice"));
        }
        let challenge = text(challenge)?;
        let mut fields = challenge.split(',');
        let mut field = |prefix| fields.next().and_then(|field| field.strip_prefix(prefix));
        let (Some(nonce), Some(salt), Some(iterations)) = (field("r="), field("s="), field("i=")) else {
            return Err(ScramError::Message("the server's challenge is not one"));
        };
        if nonce.strip_prefix(self.nonce.as_str()).is_none_or(str::is_empty) {
            return Err(ScramError::Message("the server's nonce does not go on from the client's"));
        }
        let salt = STANDARD.decode(salt).map_err(|_| ScramError::Message("the server's salt is not base64"))?;
        let iterations = iterations.parse().ok().filter(|iterations| ITERATIONS.contains(iterations));
        let iterations = iterations
            .ok_or(ScramError::Message("the server asks for less than 4096 or more than 1000000 iterations"))?;
        let without_proof = format!("c=biws,r={nonce}");
        let about = format!("{},{challenge},{without_proof}", self.first_bare);
        let (client_key, server_key) = self.keys(salt, iterations, cache);
        let signature = self.mechanism.hmac(&self.mechanism.hash(&client_key), about.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        self.stage = Stage::Signature { expected: self.mechanism.hmac(&server_key, about.as_bytes()) };
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes())
    }

    /// Takes the server's signature `v=…`: only then the client knows whom it talks to.
    ///
    /// # Errors
    /// When the signature is wrong, or there is none.
    pub fn verify(&mut self, signature: &[u8]) -> Result<(), ScramError> {
        let Stage::Signature { expected } = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Err(ScramError::Message("the server signs before it challenges"));
        };
        let signature = text(signature)?.strip_prefix("v=").and_then(|signature| STANDARD.decode(signature).ok());
        match signature {
            Some(signature) if bool::from(signature.ct_eq(&expected)) => Ok(()),
            _ => Err(ScramError::Signature),
        }
    }

    fn keys(&self, salt: Vec<u8>, iterations: u32, cache: &KeyCache) -> (Vec<u8>, Vec<u8>) {
        let fits = |keys: &&Keys| (keys.mechanism, &keys.salt, keys.iterations) == (self.mechanism, &salt, iterations);
        if let Some(keys) = cache.0.lock().as_ref().filter(fits) {
            return (keys.client_key.clone(), keys.server_key.clone());
        }
        let salted = self.mechanism.salted(self.secret.as_bytes(), &salt, iterations);
        let client_key = self.mechanism.hmac(&salted, b"Client Key");
        let server_key = self.mechanism.hmac(&salted, b"Server Key");
        let keys = (client_key.clone(), server_key.clone());
        *cache.0.lock() = Some(Keys { mechanism: self.mechanism, salt, iterations, client_key, server_key });
        keys
    }
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > MESSAGE_MAX_BYTES {
        return Err(ScramError::Message("the server's message is too long"));
    }
    std::str::from_utf8(message).map_err(|_| ScramError::Message("the server's message is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A conversation of user `user` with the password `pencil`: the nonce, and the four messages after the header.
    type Example = (ScramMechanism, &'static str, [&'static str; 4]);

    /// Sources: the drivers' authentication specification; the second is the example of RFC 7677 as well.
    const EXAMPLES: [Example; 2] = [
        (
            ScramMechanism::Sha1,
            "fyko+d2lbbFgONRv9qkxdawL",
            [
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,p=MC2T8BvbmWRckDw8oWl5IVghwCY=",
                "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=",
            ],
        ),
        (
            ScramMechanism::Sha256,
            "rOprNGfwEbeRWgbNEkqO",
            [
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ],
        ),
    ];

    fn begin((mechanism, nonce, _): &Example) -> ScramClient {
        ScramClient::new(*mechanism, "user", "pencil", nonce).unwrap()
    }

    #[test]
    fn the_examples_of_the_specifications_hold() {
        for example in &EXAMPLES {
            let [first, challenge, proof, signature] = example.2;
            let cache = KeyCache::default();
            // The second time, the keys come from the cache.
            for _ in 0..2 {
                let mut client = begin(example);
                assert_eq!(client.first(), first.as_bytes());
                assert_eq!(client.prove(challenge.as_bytes(), &cache), Ok(proof.into()));
                assert_eq!(client.verify(signature.as_bytes()), Ok(()));
            }
        }
    }

    /// The table of the specification's "SCRAM-SHA-256 and SASLprep" tests: `IX` and the roman nine are one password,
    /// and so are a soft hyphen and nothing.
    #[test]
    fn passwords_are_prepared_for_sha_256() {
        let proof = |password: &str| {
            let mut client = ScramClient::new(ScramMechanism::Sha256, "IX", password, "abc").unwrap();
            client.prove(b"r=abcd,s=AAAA,i=4096", &KeyCache::default()).unwrap()
        };
        assert_eq!(proof("IX"), proof("I\u{ad}X"));
        assert_eq!(proof("IX"), proof("\u{2168}"));
        assert_ne!(proof("IX"), proof("IV"));
        let refused = ScramClient::new(ScramMechanism::Sha256, "u", "\u{7}", "abc");
        assert_eq!(refused.unwrap_err(), ScramError::Password);
    }

    #[test]
    fn a_server_that_is_not_the_one_is_not_believed() {
        let (cache, [_, challenge, _, signature]) = (KeyCache::default(), EXAMPLES[0].2);
        for wrong in [
            "",
            "v=",
            "r=fyko+d2lbbFgONRv9qkxdawL,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
            "r=another,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
            "r=fyko+d2lbbFgONRv9qkxdawLX,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=4095",
            "r=fyko+d2lbbFgONRv9qkxdawLX,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=1000001",
            "r=fyko+d2lbbFgONRv9qkxdawLX,s=~,i=10000",
            "m=1,r=fyko+d2lbbFgONRv9qkxdawLX,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
        ] {
            let mut client = begin(&EXAMPLES[0]);
            assert!(client.prove(wrong.as_bytes(), &cache).is_err(), "{wrong}");
            assert!(client.prove(challenge.as_bytes(), &cache).is_err(), "it is over");
        }
        for wrong in ["", "v=", "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e1=", "v=UMWeI25JD1yNYZRMpZ4VHvhZ9g==", "e=other-error"] {
            let mut client = begin(&EXAMPLES[0]);
            client.prove(challenge.as_bytes(), &cache).unwrap();
            assert_eq!(client.verify(wrong.as_bytes()), Err(ScramError::Signature), "{wrong}");
            assert!(client.verify(signature.as_bytes()).is_err(), "it is over");
        }
        assert!(begin(&EXAMPLES[0]).verify(signature.as_bytes()).is_err(), "a signature before the challenge");
    }

    #[test]
    fn names_are_escaped() {
        let client = ScramClient::new(ScramMechanism::Sha1, "a,b=c", "p", "x").unwrap();
        assert_eq!(client.first(), b"n,,n=a=2Cb=3Dc,r=x");
    }

    proptest! {
        #[test]
        fn no_message_panics(
            challenge in proptest::collection::vec(any::<u8>(), 0..80),
            text in "r=(x|xy)[!-+]{0,9},s=[A-Za-z0-9=]{0,9},i=[0-9]{0,4}",
        ) {
            let cache = KeyCache::default();
            for message in [&challenge[..], text.as_bytes()] {
                let mut client = ScramClient::new(ScramMechanism::Sha256, "u", "p", "x").unwrap();
                let _ = client.prove(message, &cache);
                prop_assert!(client.verify(&challenge).is_err());
            }
        }
    }
}
