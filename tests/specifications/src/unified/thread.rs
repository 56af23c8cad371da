//! Operations that run beside the test, one after the other.

use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::failure::{Checked, Within};

/// How long `waitForThread` waits.
const LIMIT: Duration = Duration::from_secs(10);

/// A "thread" of the format: a queue of operations.
#[derive(Default)]
pub struct Thread {
    /// The last operation, which waits for those before it.
    last: Mutex<Option<JoinHandle<Checked>>>,
}

impl Thread {
    /// Runs `operation` when those before it are done; does not wait for that.
    pub fn run(&self, operation: impl Future<Output = Checked> + Send + 'static) {
        let mut last = self.last.lock();
        let before = last.take();
        *last = Some(tokio::spawn(async move {
            if let Some(before) = before {
                before.await.within(|| "thread".into())??;
            }
            operation.await
        }));
    }

    /// Waits until everything is done.
    ///
    /// # Errors
    /// When something failed, or is not done in time.
    pub async fn join(&self) -> Checked {
        let last = self.last.lock().take();
        match last {
            Some(last) => timeout(LIMIT, last).await.within(|| "thread".into())?.within(|| "thread".into())?,
            None => Ok(()),
        }
    }
}
