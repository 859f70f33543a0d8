//! `readstates backup` as a person or a script runs it: on an embedded store and a folder.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use readstates::store::{
    BegunRestore, ClaimName, CqlLogin, CqlRestores, CqlStore, EmbeddedStore, RestoreRecords, Scan,
    Store,
};
use readstates_ring::Stamp;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    common::{
        conformance::stamp,
        engine::{CAPACITY, start},
    },
    process::{IN_USE, readstates, readstates_when_free},
};

/// (status, standard output, standard error)
fn backup(arguments: &[&str]) -> (i32, String, String) {
    readstates_when_free(&[&["backup"], arguments].concat())
}

fn done(arguments: &[&str]) -> String {
    let (status, said, error) = backup(arguments);
    assert_eq!(status, 0, "{arguments:?}: {said}{error}");
    said
}

fn refused(arguments: &[&str], status: i32, words: &str) {
    let (found, said, error) = backup(arguments);
    assert_eq!(found, status, "{arguments:?}: {said}{error}");
    assert!(error.contains(words), "{error}");
}

struct BackupWorld {
    folder: TempDir,
    store: String,
    backups: String,
    key: String,
}

/// A store in which an engine has left 300 users, and a place for backups.
async fn world() -> BackupWorld {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("key"), [7; 32]).unwrap();
    let world = BackupWorld {
        store: format!("embedded:{}", path("store")),
        backups: path("backups"),
        key: path("key"),
        folder,
    };
    let engine = start(open(&world.path("store")), CAPACITY);
    for user in 1..=300 {
        engine.manual(user, 10, user * 7).await.unwrap();
    }
    engine.stop().await;
    world
}

impl BackupWorld {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn open(folder: &Path) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(folder, 0).unwrap())
}

#[tokio::test]
async fn what_was_backed_up_is_listed_verified_and_restored() {
    let world = world().await;
    let (store, place) = (world.store.as_str(), ["--backups", &world.backups]);
    let key = ["--encryption-key-file", &world.key];
    let with = |first: &[&str], rest: &[&[&str]]| -> Vec<String> {
        let all = first.iter().chain(rest.iter().copied().flatten());
        all.map(ToString::to_string).collect()
    };
    let done =
        |arguments: Vec<String>| done(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let said = done(with(&["create", "--store", store], &[&place, &key]));
    assert!(said.contains("300 users"), "{said}");
    let said = done(with(&["create", "--store", store], &[&place, &key]));
    assert!(said.contains("0 chunks were new"), "{said}");

    let list: Value =
        serde_json::from_str(&done(with(&["list", "--json"], &[&place, &key]))).unwrap();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(
        (&list[0]["users"], &list[0]["source"]),
        (&300.into(), &store.into())
    );
    let id = list[0]["id"].as_str().unwrap();
    let said = done(with(&["verify", id], &[&place, &key]));
    assert!(said.contains("sound; 300 users"), "{said}");

    let other = format!("embedded:{}", world.path("other").display());
    let restore = ["restore", "--store", &other];
    let said = done(with(&restore, &[&place, &key, &["--dry-run"]]));
    assert!(said.contains("would restore 300 users") && !world.path("other").exists());
    done(with(&restore, &[&place, &key]));
    let engine = start(open(&world.path("other")), CAPACITY);
    for user in 1..=300 {
        assert_eq!(engine.last(user, 10).await, Ok(user * 7));
    }
    engine.stop().await;

    let said = done(with(
        &["prune", "--keep-last", "1", "--grace", "0s"],
        &[&place, &key],
    ));
    assert!(said.contains(&format!("deleted backup {id}")), "{said}");
    done(with(&["verify"], &[&place, &key]));
}

#[tokio::test]
async fn a_program_reads_what_was_done_in_a_file_that_is_not_there_when_it_failed() {
    let world = world().await;
    let file = world.path("report");
    let report = ["--report", file.to_str().unwrap()];
    let place = ["--backups", world.backups.as_str()];
    let said = |first: &[&str]| -> Value {
        done(&[first, &place, &report].concat());
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let create = ["create", "--store", world.store.as_str()];
    let first = said(&create);
    assert_eq!(first["users"], 300);
    assert_eq!(first["source"], world.store);
    assert_eq!(first["new_stored_bytes"], first["stored_bytes"]);
    let second = said(&create);
    assert_eq!(
        (&second["new_chunks"], &second["new_stored_bytes"]),
        (&0.into(), &0.into())
    );
    assert!(second["finished"].as_str() > first["finished"].as_str());

    let verified = said(&["verify"]);
    assert_eq!(verified["id"], second["id"]);
    assert_eq!(verified["bytes"], second["bytes"]);
    let prune = ["prune", "--keep-last", "1", "--grace", "0s"];
    let pruned = said(&[&prune[..], &["--dry-run"]].concat());
    assert_eq!(
        (&pruned["dry_run"], &pruned["deleted_backups"]),
        (&true.into(), &1.into())
    );
    assert_eq!(said(&prune)["kept_backups"], 1);

    let elsewhere = world.path("elsewhere").display().to_string();
    let verify = ["verify", "--backups", &elsewhere];
    refused(&[&verify[..], &report].concat(), 1, "there is no folder");
    assert!(!file.exists());
    let nowhere = ["--report", "/nowhere/report"];
    let words = "everything was done, but --report: failed to write";
    refused(&[&create[..], &place, &nowhere].concat(), 1, words);
}

/// A restore for a new cluster is recorded in its keyspace: nothing is restored once members have served from there.
#[tokio::test]
async fn a_restore_for_a_new_cluster_is_done_once_and_members_come_after_it() {
    let Ok(address) = std::env::var("READSTATES_TEST_CQL") else {
        let skipped = "SKIPPED: no restore into a CQL store; set READSTATES_TEST_CQL=HOST:PORT";
        writeln!(std::io::stderr(), "{skipped}").unwrap();
        return;
    };
    let datacenter = std::env::var("READSTATES_TEST_CQL_DC").unwrap_or("datacenter1".into());
    let (world, replication) = (world().await, format!("{datacenter}=1"));
    let backups = ["--backups", &world.backups];
    done(&[&["create", "--store", &world.store], &backups[..]].concat());
    let keyspace = || format!("{address}/restore_{:x}", rand::random::<u32>());
    let schema = |target: &str| {
        let store = format!("cql://{target}");
        let args = ["schema", "--store", &store, "--claim", "chat"];
        let (status, _, error) =
            readstates(&[&args[..], &["--replication", &replication]].concat());
        assert_eq!(status, 0, "{error}");
        store
    };
    let once = |store: &str, claim: &str| {
        let args = ["restore", "--once", "--store", store, "--claim", claim];
        backup(&[&args[..], &backups].concat())
    };
    let serves = async |target: &str| {
        let login = CqlLogin {
            claim: Some("chat".parse().unwrap()),
            ..CqlLogin::default()
        };
        let store = CqlStore::serve(target.parse().unwrap(), login);
        for _ in 0..300 {
            if store.check().await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        store
    };

    let restored = keyspace();
    let store = schema(&restored);
    let (status, _, error) = once(&store, "mail");
    assert_eq!(status, 1, "{error}");
    assert!(error.contains("is claimed by chat"), "{error}");
    let (status, said, error) = once(&store, "chat");
    assert_eq!(status, 0, "{said}{error}");
    assert!(said.contains("with 300 users was restored"), "{said}");
    let member = serves(&restored).await;
    let kept = member.load(7).await.unwrap().unwrap();
    let changed = kept.stamp.as_database() + (1 << 24);
    let changed = Stamp::from_database(changed);
    member.save(7, kept.bytes, changed).await.unwrap();
    let (status, said, error) = once(&store, "chat");
    assert_eq!(status, 0, "{said}{error}");
    assert_eq!(member.load(7).await.unwrap().unwrap().stamp, changed);

    let served = keyspace();
    let store = schema(&served);
    let member = serves(&served).await;
    assert_eq!(member.load(7).await.unwrap(), None);
    let (status, _, error) = once(&store, "chat");
    assert_eq!(status, 3, "{error}");
    assert!(error.contains("members serve or have served"), "{error}");
    assert_eq!(member.load(7).await.unwrap(), None);
}

/// What is half there is not backed up, exported or moved as if it were all.
#[tokio::test]
async fn a_keyspace_into_which_a_restore_is_half_done_is_not_read_as_a_whole() {
    let Ok(address) = std::env::var("READSTATES_TEST_CQL") else {
        let skipped = "SKIPPED: no restore into a CQL store; set READSTATES_TEST_CQL=HOST:PORT";
        writeln!(std::io::stderr(), "{skipped}").unwrap();
        return;
    };
    let datacenter = std::env::var("READSTATES_TEST_CQL_DC").unwrap_or("datacenter1".into());
    let (world, replication) = (world().await, format!("{datacenter}=1"));
    let target = format!("{address}/half_{:x}", rand::random::<u32>());
    let store = format!("cql://{target}");
    let claimed = ["--store", &store, "--claim", "chat"];
    let schema = [&["schema"], &claimed[..], &["--replication", &replication]].concat();
    let (status, _, error) = readstates(&schema);
    assert_eq!(status, 0, "{error}");
    let claim: ClaimName = "chat".parse().unwrap();
    let login = CqlLogin {
        claim: Some(claim.clone()),
        ..CqlLogin::default()
    };
    let opened = Arc::new(CqlStore::start(target.parse().unwrap(), login));
    let begun = BegunRestore {
        claim: claim.to_string(),
        backup: "20260101T000000.000Z-00000001".to_owned(),
        since: Timestamp::now(),
        chunks: 1,
        finished: None,
    };
    let records = CqlRestores::new(Arc::clone(&opened), claim);
    for _ in 0..300 {
        if opened.check().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    records.begin(&begun).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (checkpoint, to) = (file("checkpoint"), format!("embedded:{}", file("to")));
    for args in [
        [
            &["backup", "create"],
            &claimed[..],
            &["--backups", &world.backups],
        ]
        .concat(),
        [&["export"], &claimed[..], &["--to", &file("all.csv")]].concat(),
        [
            &["migrate", "copy"],
            &claimed[..],
            &["--to", &to, "--checkpoint", &checkpoint],
        ]
        .concat(),
    ] {
        let (status, _, error) = readstates(&args);
        assert_eq!(status, 1, "{args:?}: {error}");
        assert!(
            error.contains("has not come to its end"),
            "{args:?}: {error}"
        );
    }
    records.finish(Timestamp::now()).await.unwrap();
    let create = [
        &["backup", "create"],
        &claimed[..],
        &["--backups", &world.backups],
    ]
    .concat();
    let (status, _, error) = readstates(&create);
    assert_eq!(status, 0, "{error}");
}

/// Into a CQL database and out of it again, of which no user is lost and none changed.
#[tokio::test]
async fn a_backup_goes_from_one_kind_of_store_to_another_and_back() {
    let Ok(address) = std::env::var("READSTATES_TEST_CQL") else {
        let skipped = "SKIPPED: no backup of a CQL store; set READSTATES_TEST_CQL=HOST:PORT";
        writeln!(std::io::stderr(), "{skipped}").unwrap();
        return;
    };
    let datacenter = std::env::var("READSTATES_TEST_CQL_DC").unwrap_or("datacenter1".into());
    let world = world().await;
    let database = format!("cql://{address}/backup_{:x}", rand::random::<u32>());
    let replication = format!("{datacenter}=1");
    let schema = [
        "schema",
        "--store",
        &database,
        "--replication",
        &replication,
    ];
    let (status, _, error) = readstates(&schema);
    assert_eq!(status, 0, "{error}");

    let place = ["--backups", &world.backups];
    let with = |first: &[&str], store: &str| done(&[first, &["--store", store], &place].concat());
    with(&["create"], &world.store);
    let said = with(&["restore"], &database);
    assert!(said.starts_with("restored 300 users"), "{said}");
    let said = with(&["restore"], &database);
    assert!(
        said.starts_with("restored 300 users"),
        "its own rows are no others: {said}"
    );
    let from_database = world.path("of-database").display().to_string();
    let place = ["--backups", &from_database];
    let with = |first: &[&str], store: &str| done(&[first, &["--store", store], &place].concat());
    with(&["create"], &database);
    let said = with(&["create"], &database);
    assert!(said.contains("0 chunks were new"), "{said}");
    assert!(done(&["verify", place[0], place[1]]).contains("sound; 300 users"));
    with(
        &["restore"],
        &format!("embedded:{}", world.path("other").display()),
    );
    let engine = start(open(&world.path("other")), CAPACITY);
    for user in 1..=300 {
        assert_eq!(engine.last(user, 10).await, Ok(user * 7));
    }
    engine.stop().await;
}

#[tokio::test]
async fn refusals_have_a_status_of_their_own_and_say_what_to_do() {
    let world = world().await;
    let (store, backups) = (world.store.as_str(), world.backups.as_str());
    refused(&["list", "--backups", backups], 1, "there is no folder");
    let nowhere = format!("embedded:{}", world.path("nowhere").display());
    let create = ["create", "--backups", backups, "--store"];
    refused(
        &[&create[..], &[&nowhere]].concat(),
        1,
        "there is no store in",
    );
    refused(&[&create[..], &["memory"]].concat(), 1, "a store in memory");
    done(&[&create[..], &[store]].concat());

    let restore = ["restore", "--backups", backups, "--store", store];
    refused(&restore, 3, "the destination is not empty");
    refused(
        &[&restore[..], &["--user", "999"]].concat(),
        3,
        "user 999 is not in backup",
    );
    let said = done(&[&restore[..], &["--user", "7"]].concat());
    assert!(said.starts_with("restored 1 users"), "{said}");
    done(&[&restore[..], &["--overwrite"]].concat());
    refused(&["prune", "--backups", backups], 2, "--keep-last");
    let key = [
        "verify",
        "--backups",
        backups,
        "--encryption-key-file",
        &world.key,
    ];
    refused(&key, 1, "is not encrypted");

    let in_use = open(&world.path("store"));
    let (status, _, error) = readstates(&[&["backup"], &create[..], &[store]].concat());
    assert!(status == 1 && error.contains(IN_USE), "{error}");
    in_use
        .save(5, b"no block".to_vec(), stamp(i64::MAX >> 1))
        .await
        .unwrap();
    assert_eq!(in_use.ranges(), 1);
    drop(in_use);
    done(&[&create[..], &[store]].concat());
    refused(&["verify", "--backups", backups], 4, "the block of user 5");
}
