//! What holds of a copy between any two stores.

use proptest::prelude::*;

use super::{MigrateWorld, memory, rows};
use crate::store::{Store, Stored};
use readstates_ring::Stamp;

/// User, stamp, and one byte of a block.
type Writes = Vec<(u64, i64, u8)>;

fn writes() -> impl Strategy<Value = Writes> {
    prop::collection::vec((0_u64..40, 1_i64..6, 0_u8..3), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A copy ends as if everything had been written to the target, in any order.
    #[test]
    fn of_each_user_the_write_stays_that_a_store_would_keep(from in writes(), to in writes()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (source, target, both) = (memory(), memory(), memory());
            let put = async |store: &dyn Store, (user, stamp, byte)| {
                let stamp = Stamp::from_database(stamp);
                store.save(user, vec![2, byte, 0, 0, 0, 0, 0, 0, 0], stamp).await.unwrap();
            };
            for &write in &from {
                put(&*source, write).await;
                put(&*both, write).await;
            }
            for &write in &to {
                put(&*target, write).await;
                put(&*both, write).await;
            }
            let before = rows(&*source).await;
            let world = MigrateWorld::new().merging();
            // Without a file: its syncs take most of the time.
            let mut moving = world.begin_with(&source, &target, false).await.unwrap();
            let mut conflicts = 0;
            for (user, Stored { bytes, stamp }) in &rows(&*target).await {
                let of_source = before.get(user);
                conflicts += u64::from(
                    of_source.is_some_and(|row| row.stamp == *stamp && row.bytes != *bytes),
                );
            }
            let copied = moving.copy(0, 3).await;
            let first = moving.done[0].tally.clone();
            assert_eq!(first.conflicts, conflicts, "{copied:?}");
            assert_eq!(first.users, before.len() as u64);
            assert_eq!(rows(&*target).await, rows(&*both).await);
            assert_eq!(rows(&*source).await, before, "a copy only reads it");
        });
    }
}
