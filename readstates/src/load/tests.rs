//! Users whose slots are sealed.

use super::*;
use crate::{
    block::{BlockRef, Operation, Outcome, Visit},
    cache::Process,
    store::MemoryStore,
};

#[tokio::test]
async fn a_cached_user_of_a_sealed_slot_is_read_and_not_changed_by_whoever_has_missed_it() {
    let process = Process {
        incarnation: 7,
        started_micros: 1_000_000,
    };
    let cache = Arc::new(Cache::new(process, 1000, Duration::from_secs(30)));
    let (store, metrics) = (Arc::new(MemoryStore::default()), Arc::new(Metrics::new()));
    let loader = Loader::new(Arc::clone(&cache), store, metrics, Arc::default());
    let (user, touch) = (1, Touch::Online);
    // It was not there when the operations looked, and landed before the slot was sealed.
    cache.insert(user, None);
    cache.pause(Slot::of_user(user));
    let operation = Operation::Ack {
        channel: 10,
        message: 5,
        visit: Visit::default(),
    };
    let changer = |answer| Changer {
        precondition: None,
        operations: Box::new([operation]),
        touch,
        view: |_: BlockRef<'_>, _: &[Outcome]| (),
        answer,
    };
    let changed = loader.wait_for(user, touch, changer).await;
    assert_eq!(changed, Err(LoadError::Moved.into()));
    let view = |block: BlockRef<'_>| block.version();
    let reader = |answer| Reader { view, answer };
    assert_eq!(loader.wait_for(user, touch, reader).await, Ok(0));
}
