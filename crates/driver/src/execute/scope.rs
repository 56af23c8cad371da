//! What an operation inherits from the client, database or collection it is started on.

use std::sync::Arc;
use std::time::Duration;

use crate::client::ClientInner;
use crate::settings::{ReadConcern, ReadPreference, WriteConcern};

/// A client and the defaults that hold at one level of it.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) client: Arc<ClientInner>,
    pub(crate) read_concern: ReadConcern,
    pub(crate) write_concern: WriteConcern,
    pub(crate) read_preference: ReadPreference,
    pub(crate) timeout: Option<Duration>,
}

impl Scope {
    pub(crate) fn of_client(client: Arc<ClientInner>) -> Self {
        let settings = client.settings.clone();
        Self {
            client,
            read_concern: settings.read_concern.clone(),
            write_concern: settings.write_concern.clone(),
            read_preference: settings.read_preference.clone(),
            timeout: settings.timeout,
        }
    }

    pub(crate) fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self.clone() }
    }

    /// The write concern as it is sent: with `timeoutMS` there is no `wtimeout` (facts/client.md C1).
    pub(crate) fn effective_write_concern(&self) -> WriteConcern {
        let mut concern = self.write_concern.clone();
        if self.timeout.is_some() {
            concern.wtimeout = None;
        }
        concern
    }
}
