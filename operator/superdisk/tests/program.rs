//! The program as its callers see it: exit status, standard output, standard error.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose world cannot be made has failed"
)]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

fn superdisk(args: &[&str]) -> Output {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of these tests that starts it"
    )]
    let mut command = Command::new(env!("CARGO_BIN_EXE_superdisk"));
    command.args(args).env_clear().output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn node(modules: &str) -> TempDir {
    let root = TempDir::new().unwrap();
    let file = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("proc/sys/kernel/osrelease", "6.1.0\n");
    file("proc/self/mountinfo", "");
    file("lib/modules/6.1.0/modules.builtin", modules);
    file("lib/modules/6.1.0/modules.dep", "");
    root
}

fn preflight(root: &Path, args: &[&str]) -> Output {
    let root = root.to_str().unwrap();
    superdisk(&[&["preflight", "--root", root], args].concat())
}

#[test]
fn a_node_that_will_do_exits_0() {
    let root = node("kernel/drivers/md/raid0.ko\nkernel/drivers/md/raid1.ko\n");
    let output = preflight(root.path(), &[]);
    assert_eq!(
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr)
        ),
        (
            Some(0),
            "This node can carry a super-disk.\n  kernel   6.1.0: raid0 built in, raid1 built in\n",
            ""
        )
    );
}

#[test]
fn a_refusal_exits_3_with_its_code_first_and_json_still_on_stdout() {
    let root = node("kernel/drivers/md/raid0.ko\n");
    let output = preflight(root.path(), &["--output", "json", "--local", "/dev/nvme*"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            output.status.code(),
            &answer["ready"],
            &answer["refusals"][1]["code"]
        ),
        (Some(3), &false.into(), &"E_SSD_MISSING".into())
    );
    assert!(
        text(&output.stderr).starts_with("E_NO_RAID1 "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn wrong_usage_exits_2_and_names_the_argument() {
    for (args, word) in [
        (vec!["preflight", "--local-count", "2"], "--local"),
        (
            vec!["preflight", "--local", "/dev/x", "--local-count", "0"],
            "--local-count",
        ),
        (vec!["preflight", "--output", "yaml"], "--output"),
        (vec!["mend"], "mend"),
        (vec![], "preflight"),
    ] {
        let output = superdisk(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(word),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_node_that_cannot_be_looked_at_exits_1_and_says_which_file() {
    let root = TempDir::new().unwrap();
    let output = preflight(root.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("proc/self/mountinfo: No such file"),
        "{error}"
    );
}

#[test]
fn a_broken_pattern_exits_1_and_is_shown() {
    let root = node("");
    let output = preflight(root.path(), &["--local", "/dev/nvme[0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("pattern /dev/nvme[0"),
        "{}",
        text(&output.stderr)
    );
}

/// What all commands need beside the volume.
const REST: [&str; 6] = [
    "--local",
    "/dev/none",
    "--mount",
    "/none",
    "--state-dir",
    "/none",
];

#[test]
fn a_volume_is_named_by_flags_or_by_a_file_and_not_by_both() {
    for (args, word) in [
        (vec!["status"], "--durable"),
        (vec!["status", "--durable", "/dev/x"], "--volume-uid"),
        (
            vec!["status", "--disk", "/x", "--durable", "/dev/x"],
            "--durable",
        ),
        (
            vec!["assemble", "--disk", "/x", "--owner", "999"],
            "--owner",
        ),
    ] {
        let output = superdisk(&[&args[..], &REST].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let error = text(&output.stderr);
        assert!(error.contains(word), "{args:?}: {error}");
    }
    let output = superdisk(&[&["status", "--disk", "/no/such"][..], &REST].concat());
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.starts_with("error: failed to use /no/such: "),
        "{error}"
    );
}
