//! Imports and exports that are done: round trips, kills, clients beside, pages.

use std::{fmt::Write as _, time::Duration};

use readstates::block::{Import, Operation};
use readstates::cache::Touch;

use super::*;
use crate::{
    common::engine::{CAPACITY, start},
    transfer::services::ack,
};

/// A store with users of many kinds, and what there is to lose: extremes, states that were never read, mentions.
async fn filled(folder: &std::path::Path) {
    let engine = start(store(folder), CAPACITY);
    let one = async |user, operation| {
        engine.one(user, operation, Touch::Mention).await.unwrap();
    };
    for user in 1..=300 {
        engine.manual(user, 10, user * 7).await.unwrap();
        engine.mention(user, user * 7 + 5).await.unwrap();
    }
    let import = Import {
        message: u64::MAX - 1,
        mention_count: u32::MAX,
        counted_through: u64::MAX,
        flags: Some(u32::MAX),
        last_viewed: u16::MAX,
        last_pin_millis: 253_402_207_199_999,
    };
    let channel = u64::MAX;
    one(u64::MAX, Operation::Import { channel, import }).await;
    let never = Operation::Mention {
        channel: 11,
        message: 5,
        count: 3,
    };
    one(7, never).await;
    one(
        7,
        Operation::AckPins {
            channel: 12,
            millis: 1500,
        },
    )
    .await;
    one(8, Operation::Delete { channel: 10 }).await;
    engine.stop().await;
}

/// Rows without their versions, in order.
fn rows(text: &str, is_csv: bool) -> Vec<String> {
    let mut rows: Vec<String> = text
        .lines()
        .skip(usize::from(is_csv))
        .map(|line| match is_csv {
            true => line.rsplit_once(',').unwrap().0.to_owned(),
            false => line.split_once(",\"version\"").unwrap().0.to_owned(),
        })
        .collect();
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn what_is_exported_and_imported_is_what_it_was() {
    let world = world();
    filled(&world.path("store")).await;
    let from = format!("embedded:{}", world.text("store"));
    let text = readstates(&["export", "--store", &from]).done();
    let expected = rows(&text, false);
    assert_eq!(expected.len(), 302);
    for format in ["ndjson", "csv"] {
        // Through a member that writes to a store, which is exported again.
        let (file, again) = (world.text(&format!("rows.{format}")), world.path(format));
        let report = world.text("report");
        let export = [
            "export", "--store", &from, "--to", &file, "--report", &report,
        ];
        readstates(&export).done();
        assert_eq!(json(&world.path("report"))["read_states"], 302);
        let exported = fs::read_to_string(&file).unwrap();
        assert_eq!(rows(&exported, format == "csv").len(), 302);
        let url = {
            let store = format!("embedded:{}", again.display());
            let member = crate::tools::serve_on(&store);
            let import = ["import", "--from", &file, "--url", &member.url];
            let said = readstates(&import).done();
            assert!(
                said.contains("imported 302 rows") && said.contains("302 applied"),
                "{said}"
            );
            let said = readstates(&import).done();
            assert!(said.contains("0 applied, 302 ignored"), "{said}");
            member.url.clone()
        };
        // The member was killed: what it had acknowledged is in its journal, which belongs to the store.
        let again = format!("embedded:{}", again.display());
        let text = readstates(&["export", "--store", &again]).done();
        assert_eq!(rows(&text, false), expected, "{format} through {url}");
    }
}

#[tokio::test]
async fn an_export_of_a_backup_has_what_its_store_had_and_one_user_alone_if_asked() {
    let world = world();
    filled(&world.path("store")).await;
    let from = format!("embedded:{}", world.text("store"));
    let backups = world.text("backups");
    let create = ["backup", "create", "--store", &from, "--backups", &backups];
    readstates(&create).done();
    let of_store = readstates(&["export", "--store", &from]).done();
    let of_backup = readstates(&["export", "--backups", &backups]).done();
    assert_eq!(rows(&of_backup, false), rows(&of_store, false));
    for source in [["--store", from.as_str()], ["--backups", backups.as_str()]] {
        let one = ["export", "--user", "7", "--format", "csv"];
        let text = readstates(&[&one[..], &source].concat()).done();
        let found = rows(&text, true);
        assert_eq!(
            found,
            [
                "7,10,49,1,54,0,0,",
                "7,11,,3,5,0,0,",
                "7,12,,0,,0,0,1970-01-01T00:00:01.5Z"
            ]
        );
        let one = ["export", "--user", "999"];
        assert_eq!(readstates(&[&one[..], &source].concat()).done(), "");
    }
}

/// Rows of users 1 to so many, each with a channel and a message of the same number.
fn numbered(users: u64) -> String {
    let mut text = "user_id,channel_id,last_message_id,mention_count\n".to_owned();
    for user in 1..=users {
        writeln!(text, "{user},10,{},{}", user * 7, user % 3).unwrap();
    }
    text
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program itself is what is tested here"
)]
fn spawn(arguments: &[&str]) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_readstates"));
    command.args(arguments).env_clear();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Starts an import, and waits until its checkpoint has more rows than these; returns how many.
pub(super) async fn under_way(
    world: &TransferWorld,
    arguments: &[&str],
    before: u64,
) -> (std::process::Child, u64) {
    let mut child = spawn(arguments);
    loop {
        let text = fs::read_to_string(world.path("checkpoint")).unwrap_or_default();
        let state: Value = serde_json::from_str(&text).unwrap_or_default();
        let rows = state["tally"]["rows"].as_u64().unwrap_or(0);
        if rows > before {
            return (child, rows);
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_import_that_is_killed_goes_on_and_clients_beside_it_keep_what_they_did() {
    let world = world();
    let from = world.write("rows.csv", &numbered(400));
    let checkpoint = world.text("checkpoint");
    let import = ["import", "--from", &from, "--url", &world.member.url];
    let import = [&import[..], &["--checkpoint", &checkpoint]].concat();
    // So slow that it never gets there by itself.
    let slow = [&import[..], &["--rows", "10", "--rate", "10"]].concat();
    let mut rows = 0;
    for _ in 0..3 {
        let (mut child, at) = under_way(&world, &slow, rows).await;
        child.kill().unwrap();
        child.wait().unwrap();
        rows = at;
    }
    assert!(rows < 400, "{rows}");
    // One whose row was sent, and one whose row was not.
    ack(&world.member.url, 1, 10, 5000).await;
    ack(&world.member.url, 400, 10, 5000).await;
    // Another process has the checkpoint meanwhile.
    let (mut busy, _) = under_way(&world, &slow, rows).await;
    readstates(&import).failed(3, "another import is at work");
    busy.kill().unwrap();
    busy.wait().unwrap();
    let said = readstates(&import).done();
    assert!(said.contains("imported 400 rows"), "{said}");
    let state = json(&world.path("checkpoint"));
    assert_eq!(
        (&state["done"], &state["tally"]["bad"]),
        (&true.into(), &0.into())
    );
    for user in 2..400 {
        assert_eq!(
            world.numbers(user),
            [(10, user * 7, user % 3)],
            "user {user}"
        );
    }
    assert_eq!(world.numbers(1), [(10, 5000, 0)]);
    assert_eq!(world.numbers(400), [(10, 5000, 0)]);
    // What is done is done.
    let said = readstates(&import).done();
    assert!(said.contains("imported 400 rows"), "{said}");
}

#[tokio::test]
async fn rows_come_from_standard_input_and_go_on_there() {
    let world = world();
    let text = numbered(50);
    let checkpoint = world.text("checkpoint");
    let url = world.member.url.clone();
    let run = |input: &str| {
        let import = [
            "import", "--from", "-", "--format", "csv", "--url", &url, "--rows", "7",
        ];
        readstates_with(
            &[&import[..], &["--checkpoint", &checkpoint]].concat(),
            input,
        )
    };
    // Cut off in the middle of a row that makes no sense that way.
    let cut = text.find("\n30,").unwrap() + 4;
    run(&text[..cut]).failed(4, "line 31");
    let state = json(&world.path("checkpoint"));
    assert_eq!(
        (&state["tally"]["rows"], &state["done"]),
        (&28.into(), &false.into())
    );
    run(&text.replace("user_id", "user_ID")).failed(3, "is not the input of the checkpoint");
    let said = run(&text).done();
    assert!(
        said.contains("imported 50 rows") && said.contains("50 applied"),
        "{said}"
    );
    assert_eq!(world.numbers(50), [(10, 350, 2)]);
}

#[tokio::test]
async fn rows_of_one_channel_in_any_order_are_its_highest_message() {
    let world = world();
    let rows = [
        r#"{"u": 1, "c": "10", "m": "300", "n": 1}"#,
        r#"{"u": 1, "c": "10", "m": "100", "n": 5}"#,
        "",
        r#"{"u": "1", "c": 10, "m": 300, "n": 9, "other": [1, 2]}"#,
        r#"{"u": "1", "c": 11, "m": null}"#,
    ];
    let from = world.write("rows.jsonl", &rows.join("\n"));
    let columns = ["--columns", "user=u,channel=c,message=m,mentions=n"];
    let report = world.text("report");
    world
        .import(&from, &[&columns[..], &["--report", &report]].concat())
        .done();
    let report = json(&world.path("report"));
    let of = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(
        (of("rows"), of("applied"), of("ignored"), of("bad")),
        (4, 1, 3, 0)
    );
    assert_eq!(world.numbers(1), [(10, 300, 1)]);
}
