//! What makes no sense: rows, columns, flags, checkpoints, damaged stores. Nothing is changed by it.

use std::sync::Arc;

use readstates::store::Store as _;

use super::*;
use crate::common::conformance::stamp;

const HEAD: &str = "user_id,channel_id,last_message_id,mention_count";

#[test]
fn bad_rows_are_told_with_line_and_reason_and_the_others_imported_if_that_is_wanted() {
    let world = world();
    let rows = [
        HEAD,
        "1,10,100,0",
        "x,10,100,0",
        "2,10,100",
        "3,10,-1,0",
        "4,\"1\n0\",1,0",
        "5,10,100,5000000000",
        "6,10,100,1",
    ];
    let from = world.write("rows.csv", &rows.join("\n"));
    let (bad, report) = (world.text("bad"), world.text("report"));
    let files = ["--bad-rows", &bad, "--report", &report];

    let dry = [&files[..], &["--dry-run"]].concat();
    let ran = world.import(&from, &dry);
    assert!(
        ran.out.contains("would send 2 of 7 rows") && ran.out.contains("nothing was sent"),
        "{}",
        ran.out
    );
    ran.failed(
        4,
        "5 rows are bad, and --max-bad-rows allows 0: line 3: user_id is \"x\"",
    );
    assert!(!world.path("report").exists());
    assert_eq!(world.states(1), [] as [Value; 0]);

    world
        .import(&from, &files)
        .failed(4, "line 3: user_id is \"x\": an id is");
    assert_eq!(
        world.states(1),
        [] as [Value; 0],
        "nothing of this window was sent"
    );
    let allowed = [&files[..], &["--max-bad-rows", "5"]].concat();
    let said = world.import(&from, &allowed).done();
    assert!(
        said.contains("2 applied") && said.contains("5 bad"),
        "{said}"
    );
    assert_eq!(world.numbers(6), [(10, 100, 1)]);
    assert_eq!(world.states(2), [] as [Value; 0]);
    let told: Vec<Value> = fs::read_to_string(&bad)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lines: Vec<u64> = told
        .iter()
        .map(|row| row["line"].as_u64().unwrap())
        .collect();
    // The row of line 6 has two lines.
    assert_eq!(lines, [3, 4, 5, 6, 8]);
    assert_eq!(told[1]["reason"], "3 values in 4 columns");
    assert_eq!(told[4]["row"], "5,10,100,5000000000");
    let report = json(&world.path("report"));
    assert_eq!(
        (&report["bad"], &report["dry_run"]),
        (&5.into(), &false.into())
    );
    assert!(
        report["first_bad"][0]
            .as_str()
            .unwrap()
            .starts_with("line 3: ")
    );
}

#[test]
fn a_quote_that_is_not_closed_ends_the_import_also_in_the_last_rows_and_is_none_between_tabs() {
    let world = world();
    let rows = "1,10,100,0,a\n2,10,100,0,\"b\n3,10,100,0,c\n";
    let text = format!("{HEAD},name\n{rows}");
    let from = world.write("rows.csv", &text);
    for more in [&["--dry-run"][..], &[]] {
        let ran = world.import(&from, more);
        ran.failed(4, "the record that begins in line 3 does not end");
    }
    let from = world.write("rows.tsv", &text.replace(',', "\t"));
    let said = world.import(&from, &[]).done();
    assert!(said.contains("3 applied"), "{said}");
    assert_eq!(world.numbers(3), [(10, 100, 0)]);
}

#[test]
fn wrong_columns_flags_and_files_are_refused_before_anything_is_sent() {
    let world = world();
    let from = world.write("rows.csv", &format!("{HEAD}\n1,10,100,0\n"));
    let other = world.write("rows.data", "1;10;100\n");
    world
        .import(&from, &["--columns", "message=seen"])
        .failed(3, "there is no column \"seen\" for the message");
    world
        .import(&other, &["--format", "csv"])
        .failed(3, "there is no column \"user_id\" for the user");
    let columns = "user=1,channel=2,message=9";
    let flags = [
        "--format",
        "csv",
        "--no-header",
        "--delimiter",
        ";",
        "--columns",
        columns,
    ];
    world
        .import(&other, &flags)
        .failed(3, "there is no column \"9\"");
    world
        .import(&other, &[])
        .failed(2, "--format: give csv, tsv or ndjson");
    world
        .import(&from, &["--columns", "who=x"])
        .failed(2, "\"who\" is no field");
    world
        .import("no://thing", &[])
        .failed(2, "is no source that is known");
    world
        .import(&world.text("nothing.csv"), &[])
        .failed(1, "No such file");
    world
        .import(&world.text(""), &["--format", "csv"])
        .failed(1, "directory");
    world
        .import(&from, &["--bad-rows", &from])
        .failed(2, "the file is the input");
    world
        .import(&from, &["--checkpoint", &from])
        .failed(1, "it is no checkpoint of an import");
    world
        .import("cql://db/ks", &[])
        .failed(2, "--table: give the table");
    world
        .import("redis://cache", &[])
        .failed(2, "--pattern: give the form of keys");
    let pattern = ["--pattern", "u:{user}", "--value", "{mentions}"];
    world
        .import("redis://cache", &pattern)
        .failed(2, "--value: give the form of values");
    assert_eq!(
        fs::read_to_string(&from).unwrap(),
        format!("{HEAD}\n1,10,100,0\n")
    );
    assert_eq!(world.states(1), [] as [Value; 0]);
    // With numbers of columns that there are.
    let columns = "user=1,channel=2,message=3";
    let flags = [
        "--format",
        "csv",
        "--no-header",
        "--delimiter",
        ";",
        "--columns",
        columns,
    ];
    world.import(&other, &flags).done();
    assert_eq!(world.numbers(1), [(10, 100, 0)]);
}

#[test]
fn a_checkpoint_of_another_import_is_refused() {
    let world = world();
    let from = world.write("rows.csv", &format!("{HEAD}\n1,10,100,0\n"));
    let other = world.write("other.csv", &format!("{HEAD}\n2,10,100,0\n"));
    let checkpoint = world.text("checkpoint");
    let with = ["--checkpoint", &checkpoint];
    world.import(&from, &with).done();
    world
        .import(&other, &with)
        .failed(3, "is of another import: it is of");
    let columns = [&with[..], &["--columns", "mentions=mention_count"]].concat();
    world.import(&from, &columns).failed(3, "it reads");
    // The same name, and another input.
    fs::write(world.path("rows.csv"), format!("{HEAD}\n3,10,100,0\n")).unwrap();
    world
        .import(&from, &with)
        .failed(3, "is not the input of the checkpoint");
    assert_eq!(world.states(3), [] as [Value; 0]);
}

#[tokio::test]
async fn an_export_tells_what_is_damaged_and_writes_the_rest() {
    let world = world();
    let engine = crate::common::engine::start(store(&world.path("store")), 1000);
    for user in 1..=20 {
        engine.manual(user, 10, user).await.unwrap();
    }
    engine.stop().await;
    let damaged: Arc<EmbeddedStore> = loop {
        match EmbeddedStore::open(&world.path("store"), 0) {
            Ok(store) => break Arc::new(store),
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    };
    damaged
        .save(5, b"no block".to_vec(), stamp(i64::MAX >> 1))
        .await
        .unwrap();
    drop(damaged);
    let from = format!("embedded:{}", world.text("store"));
    let (file, report) = (world.text("rows.csv"), world.text("report"));
    let export = [
        "export", "--store", &from, "--to", &file, "--report", &report,
    ];
    readstates(&export).failed(4, "the block of user 5: format");
    assert!(!world.path("report").exists() && !world.path("rows.csv.partial").exists());
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1 + 19);

    let nowhere = format!("embedded:{}", world.text("nowhere"));
    readstates(&["export", "--store", &nowhere]).failed(1, "there is no store in");
    assert!(!world.path("nowhere").exists());
    readstates(&["export"]).failed(2, "--store");
    readstates(&["export", "--store", &from, "--to", "/nowhere/rows"])
        .failed(1, "failed to write the rows");
    readstates(&["export", "--store", &from, "--backups", "x"]).failed(2, "cannot be used with");
}
