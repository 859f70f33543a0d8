//! What is not as it should be: told, and left as it is.

use readstates_ring::Stamp;

use super::{End, MigrateWorld, Move, USERS, fill, memory, problems, put, row, rows};
use crate::store::Store;

#[tokio::test(start_paused = true)]
async fn a_newer_row_in_the_target_stays_and_is_told_unless_it_is_expected() {
    let (world, source, target) = (MigrateWorld::new(), memory(), memory());
    fill(&*source);
    world.copy(&source, &target).await.unwrap();
    put(&*target, 5, 90_000);
    put(&*target, USERS + 1, 1);
    let (differ, text) = problems(world.copy(&source, &target).await.unwrap_err());
    assert_eq!(differ, 2, "{text}");
    assert!(
        text.contains("user 5: the target has a newer write"),
        "{text}"
    );
    assert!(
        text.contains("user 3001: only the target has a row"),
        "{text}"
    );
    let (differ, _) = problems(world.verify(&source, &target).await.unwrap_err());
    assert_eq!(differ, 2);
    let world = world.merging();
    let last = world.copy(&source, &target).await.unwrap();
    assert_eq!((last.newer, last.only_in_target), (1, 1));
    world.verify(&source, &target).await.unwrap();
    assert_eq!(target.load(5).await.unwrap(), Some(row(90_000)));
}

#[tokio::test(start_paused = true)]
async fn a_target_with_rows_of_others_is_refused_before_anything_is_written() {
    for (user, message) in [(5, 90_000), (5, 1), (USERS + 1, 1)] {
        let (world, source, target) = (MigrateWorld::new(), memory(), memory());
        fill(&*source);
        put(&*target, user, message);
        let before = rows(&*target).await;
        let refused = world.copy(&source, &target).await.unwrap_err();
        assert_eq!(refused.exit_status(), 3, "{refused}");
        assert!(
            refused.to_string().contains(&format!("of user {user} ")),
            "{refused}"
        );
        assert_eq!(rows(&*target).await, before);
        assert!(!world.path("move.json").exists());
        // Of each user the newer write stays.
        world.merging().copy(&source, &target).await.unwrap();
        let expected = row(message.max(if user > USERS { 0 } else { user }));
        assert_eq!(target.load(user).await.unwrap(), Some(expected));
    }
    // Rows as the source has them are of an earlier run whose checkpoint is lost.
    let (world, source, target) = (MigrateWorld::new(), memory(), memory());
    fill(&*source);
    (1..400).for_each(|user| put(&*target, user, user));
    world.copy(&source, &target).await.unwrap();
    assert_eq!(rows(&*target).await, rows(&*source).await);
}

#[tokio::test(start_paused = true)]
async fn a_row_from_days_ahead_is_told_and_the_rest_copied() {
    let (world, source, target) = (MigrateWorld::new(), memory(), memory());
    fill(&*source);
    let bytes = row(1).bytes;
    source
        .save(9, bytes, Stamp::from_database(i64::MAX >> 1))
        .await
        .unwrap();
    let (differ, text) = problems(world.copy(&source, &target).await.unwrap_err());
    assert_eq!(differ, 1);
    assert!(text.contains("user 9: not copied"), "{text}");
    assert_eq!(rows(&*target).await.len() as u64, USERS - 1);
}

#[tokio::test]
async fn a_checkpoint_of_another_move_and_one_store_twice_are_refused() {
    let (world, source, target) = (MigrateWorld::new(), memory(), memory());
    world.copy(&source, &target).await.unwrap();
    let end = |id: &str| End::new(id.to_owned(), id.to_owned(), memory());
    let begin = async |a, b| {
        let begun = Move::begin(end(a), end(b), world.wish.clone(), true).await;
        begun.err().map(|refused| refused.exit_status())
    };
    assert_eq!(begin("a", "c").await, Some(3));
    assert_eq!(begin("b", "a").await, Some(3));
    assert_eq!(begin("a", "a").await, Some(3));
    assert_eq!(begin("a", "b").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_verification_finds_each_row_that_is_missing_or_old_and_a_dry_run_counts_them() {
    let (world, source, target) = (MigrateWorld::new(), memory(), memory());
    fill(&*source);
    world.copy(&source, &target).await.unwrap();
    put(&*source, 1, 90_000);
    put(&*source, USERS + 1, 5);
    let (differ, text) = problems(world.verify(&source, &target).await.unwrap_err());
    assert_eq!(differ, 2, "{text}");
    for words in [
        "user 1: the target has an older write",
        "user 3001: the target has no row",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let before = rows(&*target).await;
    let file = std::fs::read(world.path("move.json")).unwrap();
    let mut dry = world.begin_with(&source, &target, false).await.unwrap();
    dry.dry_run().await.unwrap();
    assert_eq!((dry.done[0].tally.missing, dry.done[0].tally.older), (1, 1));
    assert_eq!(rows(&*target).await, before);
    assert_eq!(std::fs::read(world.path("move.json")).unwrap(), file);
}
