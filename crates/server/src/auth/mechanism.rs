//! The two SCRAM mechanisms, and the functions that each is made of.
//!
//! Source: RFC 5802 (SHA-1), RFC 7677 (SHA-256), and the authentication specification of MongoDB's drivers.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// How a client proves that it knows a password without sending it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// `SCRAM-SHA-1`, on the MD5 digest that older versions kept.
    ScramSha1,
    /// `SCRAM-SHA-256`.
    ScramSha256,
}

impl Mechanism {
    /// Both, in the order in which a mongod names them.
    pub const ALL: [Self; 2] = [Self::ScramSha1, Self::ScramSha256];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// How often the password is hashed: a mongod's `scramIterationCount` and `scramSHA256IterationCount`.
    pub fn iterations(self) -> u32 {
        match self {
            Self::ScramSha1 => 10_000,
            Self::ScramSha256 => 15_000,
        }
    }

    /// How long a salt is: as long as the hash, less the four bytes that the first round appends.
    pub fn salt_bytes(self) -> usize {
        match self {
            Self::ScramSha1 => 16,
            Self::ScramSha256 => 28,
        }
    }

    /// `H`.
    pub fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::ScramSha1 => Sha1::digest(bytes).to_vec(),
            Self::ScramSha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    /// `HMAC`.
    pub fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        fn of<M: Mac + KeyInit>(key: &[u8], bytes: &[u8]) -> Vec<u8> {
            let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(bytes);
            mac.finalize().into_bytes().to_vec()
        }
        match self {
            Self::ScramSha1 => of::<Hmac<Sha1>>(key, bytes),
            Self::ScramSha256 => of::<Hmac<Sha256>>(key, bytes),
        }
    }

    /// `Hi`: the password, salted and hashed `iterations` times.
    pub fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Self::ScramSha1 => pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(password, salt, iterations).to_vec(),
            Self::ScramSha256 => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec(),
        }
    }
}
