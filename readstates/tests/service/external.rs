//! A database that is somebody else's, in which other keyspaces and other clusters are: what is there is verified and
//! claimed, and never altered. Give its address in READSTATES_TEST_CQL=HOST:PORT.

use std::{
    io::Write,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use scylla::client::{session::Session, session_builder::SessionBuilder};

struct Theirs {
    session: Session,
    address: String,
    datacenter: String,
    keyspace: String,
}

impl Theirs {
    /// Their database, without a keyspace of this name; or nothing, which is said.
    async fn reached(name: &str) -> Option<Self> {
        let Ok(address) = std::env::var("READSTATES_TEST_CQL") else {
            let skipped =
                "SKIPPED: no database of somebody else's; set READSTATES_TEST_CQL=HOST:PORT";
            std::io::stderr()
                .write_all(format!("{skipped}\n").as_bytes())
                .unwrap();
            return None;
        };
        let session = SessionBuilder::new()
            .known_node(&address)
            .build()
            .await
            .unwrap();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Some(Self {
            session,
            address,
            datacenter: std::env::var("READSTATES_TEST_CQL_DC").unwrap_or("datacenter1".into()),
            keyspace: format!("{name}_{}", since.as_millis()),
        })
    }

    /// Their administrator makes the keyspace, with so many copies.
    async fn makes_it(&self, copies: u8) {
        let Self {
            keyspace,
            datacenter,
            ..
        } = self;
        let options = format!("{{'class': 'NetworkTopologyStrategy', '{datacenter}': {copies}}}");
        let text = format!("CREATE KEYSPACE {keyspace} WITH replication = {options}");
        self.session.query_unpaged(text, ()).await.unwrap();
    }

    /// How many copies the keyspace keeps.
    async fn copies(&self) -> String {
        let text = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let rows = self
            .session
            .query_unpaged(text, (&self.keyspace,))
            .await
            .unwrap();
        let rows = rows.into_rows_result().unwrap();
        let (options,) = rows
            .single_row::<(std::collections::BTreeMap<String, String>,)>()
            .unwrap();
        options[&self.datacenter].clone()
    }

    /// `readstates schema` as the operator's Job runs it for a cluster of this name that asks for so many copies.
    #[allow(
        clippy::disallowed_methods,
        reason = "the program itself is what is tested here"
    )]
    fn wanted_by(&self, cluster: &str, copies: u8, more: &[&str]) -> Result<(), String> {
        let Self {
            address,
            datacenter,
            keyspace,
            ..
        } = self;
        let output = Command::new(env!("CARGO_BIN_EXE_readstates"))
            .args(["schema", "--store", &format!("cql://{address}/{keyspace}")])
            .args(["--replication", &format!("{datacenter}={copies}")])
            .args(["--claim", cluster])
            .args(more)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        output.status.success().then_some(()).ok_or(error)
    }
}

#[tokio::test]
async fn a_keyspace_of_somebody_else_keeps_its_copies_whatever_a_cluster_asks_for() {
    let Some(theirs) = Theirs::reached("theirs").await else {
        return;
    };
    theirs.makes_it(1).await;
    let said = theirs.wanted_by("chat", 3, &[]).unwrap_err();
    for words in ["datacenter1=1", "datacenter1=3", "is not altered"] {
        let words = words.replace("datacenter1", &theirs.datacenter);
        assert!(said.contains(&words), "{said}");
    }
    assert_eq!(theirs.copies().await, "1");
    theirs.wanted_by("chat", 1, &[]).unwrap();

    // More copies than are asked for are nothing to complain of, though this database of one node cannot write two.
    let Some(more) = Theirs::reached("more").await else {
        return;
    };
    more.makes_it(2).await;
    if let Err(said) = more.wanted_by("chat", 1, &["--timeout", "3s"]) {
        assert!(!said.contains("is not altered"), "{said}");
    }
    assert_eq!(more.copies().await, "2");
}

#[tokio::test]
async fn a_keyspace_of_our_own_does_not_get_or_lose_several_copies_at_once() {
    for (has, asked) in [(1, 3), (3, 1)] {
        let Some(own) = Theirs::reached(&format!("from_{has}_to_{asked}")).await else {
            return;
        };
        own.makes_it(has).await;
        let said = own
            .wanted_by("chat", asked, &["--own-database"])
            .unwrap_err();
        assert!(said.contains("one copy may come or go"), "{said}");
        assert_eq!(own.copies().await, has.to_string());
    }
}

#[tokio::test]
async fn of_two_clusters_that_name_one_keyspace_the_second_is_refused_until_it_is_told_to_take_over()
 {
    let Some(theirs) = Theirs::reached("claimed").await else {
        return;
    };
    theirs
        .wanted_by("blue", 1, &["--claim-holder", "in talk"])
        .unwrap();
    theirs.wanted_by("blue", 1, &[]).expect("its own");
    let said = theirs.wanted_by("green", 1, &[]).unwrap_err();
    assert!(
        said.contains("is claimed by") && said.contains("in talk"),
        "{said}"
    );
    assert!(said.contains("--take-over-claim blue"), "{said}");
    let said = theirs
        .wanted_by("green", 1, &["--take-over-claim", "red"])
        .unwrap_err();
    assert!(said.contains("is claimed by"), "{said}");
    theirs
        .wanted_by("green", 1, &["--take-over-claim", "blue"])
        .unwrap();
    let said = theirs.wanted_by("blue", 1, &[]).unwrap_err();
    assert!(said.contains("is claimed by"), "{said}");
}
