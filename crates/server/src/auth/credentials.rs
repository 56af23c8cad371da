//! What is kept of a password.

use std::fmt;

use md5::{Digest, Md5};

use super::Mechanism;
use crate::value::text::hex;

/// What a server needs to check a proof, and to prove that it knows the user. The password cannot be had from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The mechanism that they are for.
    pub mechanism: Mechanism,
    /// Makes equal passwords differ.
    pub salt: Vec<u8>,
    /// How often the password was hashed.
    pub iterations: u32,
    /// `H(HMAC(salted password, "Client Key"))`.
    pub stored_key: Vec<u8>,
    /// `HMAC(salted password, "Server Key")`.
    pub server_key: Vec<u8>,
}

/// The password has characters that SASLprep (RFC 4013) does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the password has characters that SASLprep does not allow")]
pub struct Unpreparable;

/// A password as a client gave it.
#[derive(Clone, Copy)]
pub enum Password<'a> {
    /// As the person typed it.
    Plain(&'a str),
    /// The MD5 digest that old shells made of it; good for `SCRAM-SHA-1` only.
    Digested(&'a str),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.mechanism.name())
    }
}

impl fmt::Debug for Password<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl Credentials {
    /// Derives what is kept. `salt` is [`Mechanism::salt_bytes`] random bytes.
    ///
    /// # Errors
    /// When `SCRAM-SHA-256` cannot have the password: see [`Unpreparable`]. A digested one counts as such, too.
    pub fn derive(
        mechanism: Mechanism,
        user: &str,
        password: Password<'_>,
        salt: Vec<u8>,
    ) -> Result<Self, Unpreparable> {
        Self::with_iterations(mechanism, user, password, salt, mechanism.iterations())
    }

    /// [`Credentials::derive`] with another number of iterations.
    pub(super) fn with_iterations(
        mechanism: Mechanism,
        user: &str,
        password: Password<'_>,
        salt: Vec<u8>,
        iterations: u32,
    ) -> Result<Self, Unpreparable> {
        let secret = match (mechanism, password) {
            (Mechanism::ScramSha1, Password::Plain(password)) => digest(user, password),
            (Mechanism::ScramSha1, Password::Digested(digest)) => digest.to_owned(),
            (Mechanism::ScramSha256, Password::Plain(password)) => {
                stringprep::saslprep(password).map_err(|_| Unpreparable)?.into_owned()
            }
            (Mechanism::ScramSha256, Password::Digested(_)) => return Err(Unpreparable),
        };
        let salted = mechanism.salted(secret.as_bytes(), &salt, iterations);
        let client_key = mechanism.hmac(&salted, b"Client Key");
        Ok(Self {
            mechanism,
            salt,
            iterations,
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.hmac(&salted, b"Server Key"),
        })
    }
}

/// `MD5(user:mongo:password)` in hexadecimal: what `SCRAM-SHA-1` has in place of the password.
fn digest(user: &str, password: &str) -> String {
    hex(&Md5::digest(format!("{user}:mongo:{password}"))).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_passwords_with_other_salts_have_nothing_in_common() {
        let of = |salt: u8| {
            let salt = vec![salt; Mechanism::ScramSha256.salt_bytes()];
            Credentials::derive(Mechanism::ScramSha256, "user", Password::Plain("pencil"), salt).unwrap()
        };
        assert_eq!(of(1), of(1));
        assert!(of(1).stored_key != of(2).stored_key && of(1).server_key != of(2).server_key);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let credentials =
            Credentials::derive(Mechanism::ScramSha1, "user", Password::Plain("pencil"), vec![7; 16]).unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(SCRAM-SHA-1)");
        assert_eq!(format!("{:?}", Password::Plain("pencil")), "Password");
    }

    #[test]
    fn a_digest_stands_for_the_password_with_sha_1_only() {
        let digested = Password::Digested("1c33006ec1ffd90f9cadcbcc0e118200");
        let plain = Credentials::derive(Mechanism::ScramSha1, "user", Password::Plain("pencil"), vec![7; 16]);
        assert_eq!(Credentials::derive(Mechanism::ScramSha1, "user", digested, vec![7; 16]), plain);
        assert_eq!(Credentials::derive(Mechanism::ScramSha256, "user", digested, vec![7; 28]), Err(Unpreparable));
        let prohibited = Password::Plain("a\u{7}b");
        assert_eq!(Credentials::derive(Mechanism::ScramSha256, "user", prohibited, vec![7; 28]), Err(Unpreparable));
    }
}
