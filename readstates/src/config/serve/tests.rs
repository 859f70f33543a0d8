use clap::Parser;

use super::*;
use crate::{
    config::{Cli, Command},
    store::chain,
};

fn config(flags: &[&str]) -> Result<ServeConfig, String> {
    let words = ["readstates", "serve"].iter().chain(flags);
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Serve(args) = cli.command else {
        unreachable!()
    };
    ServeConfig::from_args(*args).map_err(|error| chain(&error))
}

#[test]
fn no_flags_mean_a_member_that_is_alone_with_a_folder() {
    let config = config(&[]).unwrap();
    assert_eq!(config.store.to_string(), "embedded:readstates-data");
    assert_eq!(config.listen.api.to_string(), "127.0.0.1:7400");
    assert_eq!(config.listen.watch.to_string(), "127.0.0.1:7404");
    assert_eq!(config.listen.members, None);
    assert_eq!(config.flush_interval, Duration::from_secs(30));
    assert_eq!(config.flush_mode, FlushMode::Adaptive);
    let journal = config.journal.unwrap();
    assert_eq!(journal.folder.to_str(), Some("readstates-data/journal"));
    assert_eq!(journal.durability, Durability::Journal);
    assert!(!journal.accept_damage);
    assert_eq!(config.ring, RingConfig::Memory);
}

#[test]
fn a_pod_says_where_its_ring_is_and_where_it_is_reached() {
    let config = config(&[
        "--ring",
        "kubernetes",
        "--ring-namespace",
        "talk",
        "--ring-name",
        "chat",
        "--member",
        "chat-0",
        "--listen",
        "0.0.0.0:7400",
        "--members-listen",
        "127.0.0.1:7403",
        "--advertise",
        "http://chat-0.chat-members.talk.svc:7400/",
        "--members-advertise",
        "http://192.0.2.7:17403/",
        "--store",
        "cql://db/readstates",
    ])
    .unwrap();
    assert_eq!(config.ring.to_string(), "kubernetes:talk/chat");
    let url = "http://chat-0.chat-members.talk.svc:7400";
    assert_eq!(config.advertise.as_deref(), Some(url));
    let url = "http://192.0.2.7:17403";
    assert_eq!(config.members_advertise.as_deref(), Some(url));
}

/// Flags, and what their refusal says.
const WRONG: &[(&[&str], &[&str])] = &[
    (
        &["--store", "redis://x"],
        &["--store", "memory, embedded:DIR or cql://"],
    ),
    (&["--store", "embedded:"], &["--store", "embedded:DIR"]),
    (
        &["--store", "cql://db"],
        &["--store", "keyspace is missing"],
    ),
    (
        &["--flush-interval", "0s"],
        &["--flush-interval", "10ms to 1h"],
    ),
    (&["--flush-interval", "soon"], &["--flush-interval"]),
    (
        &["--capacity-states", "0"],
        &["--capacity-states", "at least 1"],
    ),
    (&["--capacity-states", "-1"], &["--capacity-states"]),
    (
        &["--admin-listen", "127.0.0.1:7400"],
        &["--admin-listen", "--listen"],
    ),
    (
        &["--ring", "file:r", "--members-listen", "127.0.0.1:7404"],
        &["--watch-listen", "--members-listen"],
    ),
    (
        &["--members-listen", "127.0.0.1:7403"],
        &["--members-listen", "--ring file:DIR"],
    ),
    (
        &["--listen", "127.0.0.1:65533"],
        &["--watch-listen", "give an address"],
    ),
    (
        &["--admin-listen", "0.0.0.0:7401"],
        &[
            "--admin-listen",
            "readstates certificates",
            "127.0.0.1:7401",
        ],
    ),
    (
        &["--ring", "file:r", "--listen", "10.0.0.1:7400"],
        &["--members-listen", "--members-tls-dir"],
    ),
    (
        &["--members-tls-dir", "/no/such"],
        &["--members-tls-dir /no/such: failed to read /no/such/ca.crt"],
    ),
    (&["--listen", "nowhere"], &["--listen"]),
    (
        &["--ring", "etcd"],
        &["--ring", "memory, file:DIR or kubernetes"],
    ),
    (
        &["--ring", "kubernetes"],
        &["--ring-namespace", "namespace of the ReadStateRing"],
    ),
    (
        &["--ring", "kubernetes", "--ring-namespace", "talk"],
        &["--ring-name", "name of the ReadStateRing"],
    ),
    (
        &["--ring-name", "chat"],
        &["--ring-name", "goes with --ring kubernetes"],
    ),
    (
        &["--ring", "file:ring", "--listen", "0.0.0.0:7400"],
        &["--advertise", "0.0.0.0:7400", "http://local:7400"],
    ),
    (
        &["--ring", "file:ring", "--members-listen", "0.0.0.0:7403"],
        &["--advertise", "0.0.0.0:7403", "http://local:7400"],
    ),
    (
        &["--advertise", "chat-0:7400"],
        &["--advertise", "http://HOST"],
    ),
    (
        &["--members-advertise", "http://chat-0:7403"],
        &["--members-advertise", "--ring file:DIR"],
    ),
    (
        &["--ring", "file:ring", "--members-advertise", "chat-0:7403"],
        &["--members-advertise", "http://HOST"],
    ),
    (
        &[
            "--ring",
            "file:ring",
            "--members-advertise",
            "https://chat-0:7403",
        ],
        &["--members-advertise", "without --members-tls-dir"],
    ),
    (&["--member", "a b"], &["--member", "\"a b\""]),
    (&["--zone", "a\tb"], &["--zone", "printable"]),
    (&["--ring", "file:"], &["--ring", "folder is missing"]),
    (
        &["--ring", "kubernetes", "--ring-name", "chat"],
        &["--ring-namespace", "namespace of the ReadStateRing"],
    ),
    (
        &["--ring", "file:ring"],
        &["--store", "embedded store is for a member that is alone"],
    ),
    (
        &["--store", "memory", "--durability", "journal"],
        &["--durability", "embedded store", "--durability interval"],
    ),
    (
        &["--store", "cql://db/k", "--durability", "available"],
        &["--durability", "alone", "--ring"],
    ),
    (
        &["--durability", "replicated"],
        &["--durability", "alone", "journal with an embedded store"],
    ),
    (
        &[
            "--ring",
            "kubernetes",
            "--ring-namespace",
            "talk",
            "--ring-name",
            "chat",
            "--store",
            "embedded:data",
            "--durability",
            "available",
        ],
        &["--durability", "store in data", "give --durability journal"],
    ),
    (&["--durability", "none"], &["--durability", "journal"]),
    (&["--cql-user", "u"], &["--cql-password-file"]),
    (
        &["--cql-user", "u", "--cql-password-file", "/no/such/file"],
        &["--cql-password-file", "/no/such/file"],
    ),
    (
        &["--cql-ca-file", "/no/such/file"],
        &["--cql-ca-file: failed to read \"/no/such/file\": No such file"],
    ),
    (
        &["--cql-ca-file", "/dev/null"],
        &[
            "--cql-ca-file",
            "\"/dev/null\" holds no certificate in PEM form; give",
        ],
    ),
    (
        &["--cql-cert-file", "c"],
        &["--cql-ca-file", "--cql-key-file"],
    ),
    (&["--cql-key-file", "k"], &["--cql-cert-file"]),
    (&["--tls-cert-file", "c"], &["--tls-key-file"]),
    (&["--tls-key-file", "k"], &["--tls-cert-file"]),
    (&["--tls-client-ca-file", "a"], &["--tls-cert-file"]),
    (
        &[
            "--tls-cert-file",
            "c",
            "--tls-key-file",
            "k",
            "--advertise",
            "http://chat-0:7400",
        ],
        &["--advertise", "https://"],
    ),
    (&["--no-such-flag"], &["--no-such-flag"]),
];

#[test]
fn a_wrong_value_is_refused_with_the_flag_and_the_next_step() {
    for (flags, parts) in WRONG {
        let refusal = config(flags).unwrap_err();
        for part in *parts {
            assert!(refusal.contains(part), "{flags:?}: {refusal}");
        }
    }
}
