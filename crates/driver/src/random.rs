//! The client's randomness: everything comes from one seed, in separate streams, so that the order of background tasks
//! changes no id that the application sees.

use parking_lot::Mutex;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

use backfire_model::Lsid;
use bson::oid::ObjectId;

/// Seeded generators, one per purpose.
pub(crate) struct Random {
    sessions: Mutex<ChaCha8Rng>,
    jitter: Mutex<ChaCha8Rng>,
    selection: Mutex<ChaCha8Rng>,
    nonces: Mutex<ChaCha8Rng>,
    object_ids: Mutex<ObjectIds>,
}

struct ObjectIds {
    epoch_s: u32,
    started: Instant,
    process: [u8; 5],
    counter: u32,
}

impl Random {
    pub(crate) fn new(seed: u64, object_id_epoch_s: u32, started: Instant) -> Self {
        let stream = |number: u64| {
            let mut generator = ChaCha8Rng::seed_from_u64(seed);
            generator.set_stream(number);
            generator
        };
        let mut ids = stream(3);
        let mut process = [0; 5];
        ids.fill_bytes(&mut process);
        let object_ids = ObjectIds { epoch_s: object_id_epoch_s, started, process, counter: ids.next_u32() };
        Self {
            sessions: Mutex::new(stream(0)),
            jitter: Mutex::new(stream(1)),
            selection: Mutex::new(stream(2)),
            nonces: Mutex::new(stream(4)),
            object_ids: Mutex::new(object_ids),
        }
    }

    /// A new session id: a version 4 UUID.
    pub(crate) fn lsid(&self) -> Lsid {
        let mut bytes = [0; 16];
        self.sessions.lock().fill_bytes(&mut bytes);
        Lsid(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// A number in [0, 1), for back-off.
    pub(crate) fn jitter(&self) -> f64 {
        self.jitter.lock().random()
    }

    /// A position below `count`, which must not be 0.
    pub(crate) fn index(&self, count: usize) -> usize {
        self.selection.lock().random_range(0..count)
    }

    /// The client's part of a SCRAM nonce: 24 random bytes in base64.
    pub(crate) fn nonce(&self) -> String {
        let mut bytes = [0; 24];
        self.nonces.lock().fill_bytes(&mut bytes);
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
    }

    /// The next `_id`: seconds, this client's five bytes, and a counter that goes up by one.
    pub(crate) fn object_id(&self) -> ObjectId {
        let mut ids = self.object_ids.lock();
        let elapsed_s = u32::try_from(ids.started.elapsed().as_secs()).unwrap_or(u32::MAX);
        ids.counter = ids.counter.wrapping_add(1);
        let [_, counter @ ..] = ids.counter.to_be_bytes();
        ObjectId::from_parts(ids.epoch_s.wrapping_add(elapsed_s), ids.process, counter)
    }
}

/// A session id as BSON: `{id: UUID}`.
pub(crate) fn lsid_document(lsid: Lsid) -> bson::Document {
    let id = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: lsid.0.as_bytes().to_vec() };
    bson::doc! { "id": id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_seed_gives_the_same_ids_whatever_the_order() {
        let (one, two) = (Random::new(7, 5, Instant::now()), Random::new(7, 5, Instant::now()));
        let lsid = one.lsid();
        let (_, _, id) = (two.jitter(), two.index(3), two.object_id());
        assert_eq!(two.lsid(), lsid);
        assert_eq!(one.object_id(), id);
        assert_ne!(one.object_id(), id);
        assert_ne!(Random::new(8, 5, Instant::now()).lsid(), lsid);
        assert_eq!(lsid.0.get_version_num(), 4);
        tokio::time::advance(std::time::Duration::from_secs(10)).await;
        assert_eq!(one.object_id().timestamp().timestamp_millis(), 15_000);
    }
}
