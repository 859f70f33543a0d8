//! What the API server refuses and fills in by the CRDs, one rule at a time.

use kube::api::{Patch, PatchParams, PostParams};
use readstates_operator_api::{ReadStateRing, ReadStateRingSpec, RingMember};
use serde_json::{Value, json};

use crate::world::with_world;

fn managed() -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
        "metadata": { "name": "chat" },
        "spec": { "database": {
            "engine": "Cassandra", "replicationFactor": 2,
            "racks": [{ "name": "a", "members": 1, "zone": "z1" }, { "name": "b", "members": 2 }],
            "storage": { "size": "10Gi", "storageClassName": "fast" },
        } },
    })
}

fn external() -> Value {
    let mut cluster = managed();
    cluster["spec"]["database"] = json!({ "external": {
        "contactPoints": ["db.example"], "localDatacenter": "east", "replicationFactor": 3,
    } });
    cluster
}

fn embedded() -> Value {
    let mut cluster = managed();
    cluster["spec"] = json!({ "replicas": 1, "database": { "embedded": {} } });
    cluster
}

/// `base` with the value at `pointer` replaced; removed by `null`.
fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = base
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("no {pointer}"));
    match (parent, value) {
        (Value::Array(items), value) => items[field.parse::<usize>().unwrap()] = value,
        (Value::Object(fields), Value::Null) => {
            fields.remove(field).unwrap();
        }
        (Value::Object(fields), value) => {
            fields.insert(field.to_owned(), value);
        }
        (other, _) => panic!("{other} has no fields"),
    }
    base
}

#[test]
fn an_invalid_spec_is_refused_with_the_field_and_what_is_wrong() {
    let db = "/spec/database";
    let ext = "/spec/database/external";
    let long = "a".repeat(41);
    let cases: Vec<(Value, &[&str])> = vec![
        (
            with(managed(), &format!("{db}/embedded"), json!({})),
            &[
                "spec.database",
                "exactly one of engine, external and embedded",
            ],
        ),
        (
            with(managed(), "/spec/database", json!({})),
            &[
                "spec.database",
                "exactly one of engine, external and embedded",
            ],
        ),
        (
            with(managed(), &format!("{db}/engine"), json!("Oracle")),
            &["spec.database.engine", "Cassandra", "Scylla"],
        ),
        (
            with(managed(), &format!("{db}/replicationFactor"), Value::Null),
            &["spec.database.replicationFactor", "required with engine"],
        ),
        (
            with(managed(), &format!("{db}/racks"), Value::Null),
            &["spec.database.racks", "required with engine"],
        ),
        (
            with(managed(), &format!("{db}/storage"), Value::Null),
            &["spec.database.storage", "required with engine"],
        ),
        (
            with(managed(), &format!("{db}/replicationFactor"), json!(4)),
            &[
                "spec.database.replicationFactor",
                "must not exceed the members",
            ],
        ),
        (
            with(managed(), &format!("{db}/racks"), json!([])),
            &["spec.database.racks"],
        ),
        (
            with(managed(), &format!("{db}/racks/1/name"), json!("a")),
            &["spec.database.racks[1]", "Duplicate value"],
        ),
        (
            with(managed(), &format!("{db}/racks/1/name"), json!("Rack_1")),
            &["spec.database.racks[1].name"],
        ),
        (
            with(
                managed(),
                &format!("{db}/racks/1/name"),
                json!("r".repeat(25)),
            ),
            &["spec.database.racks[1].name", "24"],
        ),
        (
            with(managed(), &format!("{db}/racks/1/members"), json!(0)),
            &["spec.database.racks[1].members"],
        ),
        (
            with(managed(), &format!("{db}/storage/size"), json!("much")),
            &[
                "spec.database.storage.size",
                "must be a quantity above zero",
            ],
        ),
        (
            with(managed(), &format!("{db}/storage/size"), json!("0")),
            &[
                "spec.database.storage.size",
                "must be a quantity above zero",
            ],
        ),
        (
            with(managed(), &format!("{db}/keyspace"), json!("Read-States")),
            &["spec.database.keyspace"],
        ),
        (
            with(
                external(),
                &format!("{db}/storage"),
                json!({ "size": "1Gi" }),
            ),
            &["spec.database", "go with engine only"],
        ),
        (
            with(external(), &format!("{ext}/contactPoints"), json!([])),
            &["spec.database.external.contactPoints"],
        ),
        (
            with(
                external(),
                &format!("{ext}/contactPoints/0"),
                json!("db:9042"),
            ),
            &["spec.database.external.contactPoints[0]"],
        ),
        (
            with(external(), &format!("{ext}/localDatacenter"), Value::Null),
            &["spec.database.external.localDatacenter", "Required"],
        ),
        (
            with(
                external(),
                &format!("{ext}/secretRef"),
                json!({ "name": "" }),
            ),
            &["spec.database.external.secretRef", "must not be empty"],
        ),
        (
            with(embedded(), "/spec/replicas", json!(2)),
            &["spec.replicas", "must be 1 with database.embedded"],
        ),
        (
            with(embedded(), "/spec/replicas", Value::Null),
            &["spec.replicas", "must be 1 with database.embedded"],
        ),
        (
            with(managed(), "/spec/replicas", json!(0)),
            &["spec.replicas"],
        ),
        (
            with(managed(), "/spec/replicas", json!(65)),
            &["spec.replicas"],
        ),
        (
            with(managed(), "/spec/cache", json!({ "capacityStates": 0 })),
            &["spec.cache.capacityStates"],
        ),
        (
            with(managed(), "/spec/cache", json!({ "flushInterval": "soon" })),
            &["spec.cache.flushInterval"],
        ),
        (
            with(
                managed(),
                "/spec/cache",
                json!({ "flushInterval": "500ms" }),
            ),
            &["spec.cache.flushInterval", "between 1s and 10m"],
        ),
        (
            with(managed(), "/spec/cache", json!({ "flushInterval": "11m" })),
            &["spec.cache.flushInterval", "between 1s and 10m"],
        ),
        (
            with(managed(), "/spec/imagePullPolicy", json!("Sometimes")),
            &["spec.imagePullPolicy"],
        ),
        (
            with(managed(), "/spec/replcias", json!(3)),
            &["unknown field", "spec.replcias"],
        ),
        (
            with(managed(), "/spec/database", Value::Null),
            &["spec.database", "Required"],
        ),
        (
            with(managed(), "/metadata/name", json!(long)),
            &["metadata.name must be at most 40 characters"],
        ),
        (
            with(managed(), "/metadata/name", json!("1chat")),
            &["metadata.name must be at most 40 characters"],
        ),
        (
            with(managed(), "/metadata/name", json!("chat.eu")),
            &["metadata.name must be at most 40 characters"],
        ),
        (
            with(
                with(managed(), "/metadata/name", json!("c".repeat(40))),
                &format!("{db}/racks/1/name"),
                json!("nine-char"),
            ),
            &["metadata.name and the longest name in spec.database.racks"],
        ),
    ];
    with_world(async |world| {
        for (cluster, words) in &cases {
            let refusal = world
                .create(cluster)
                .await
                .expect_err(&format!("accepted {cluster}"));
            for word in *words {
                assert!(refusal.contains(word), "{word:?} is not in {refusal:?}");
            }
        }
    });
}

#[test]
fn a_change_that_would_lose_data_is_refused() {
    let db = "/spec/database";
    let changes: Vec<(Value, Value, &[&str])> = vec![
        (
            managed(),
            with(managed(), &format!("{db}/engine"), json!("Scylla")),
            &["spec.database", "cannot change"],
        ),
        (
            managed(),
            with(managed(), "/spec", external()["spec"].clone()),
            &["spec.database", "cannot change"],
        ),
        (
            managed(),
            with(managed(), &format!("{db}/keyspace"), json!("other")),
            &["spec.database.keyspace", "cannot change"],
        ),
        (
            managed(),
            with(managed(), &format!("{db}/replicationFactor"), json!(3)),
            &["spec.database.replicationFactor", "cannot change"],
        ),
        (
            managed(),
            with(managed(), &format!("{db}/storage/size"), json!("20Gi")),
            &["spec.database.storage.size", "cannot change"],
        ),
        (
            managed(),
            with(
                managed(),
                &format!("{db}/storage/storageClassName"),
                Value::Null,
            ),
            &["spec.database.storage", "storageClassName cannot change"],
        ),
        (
            managed(),
            with(managed(), &format!("{db}/racks/1/members"), json!(1)),
            &["spec.database.racks[1].members", "cannot be lowered"],
        ),
        (
            managed(),
            with(managed(), &format!("{db}/racks/0/zone"), json!("z2")),
            &["spec.database.racks[0]", "zone cannot change"],
        ),
        (
            managed(),
            with(managed(), &format!("{db}/racks/1/name"), json!("c")),
            &["spec.database.racks", "cannot be removed"],
        ),
        (
            managed(),
            with(
                managed(),
                &format!("{db}/racks"),
                json!([{ "name": "b", "members": 2 }, { "name": "a", "members": 1, "zone": "z1" }]),
            ),
            &["spec.database.racks", "first rack must stay first"],
        ),
        (
            external(),
            with(
                external(),
                &format!("{db}/external/keyspace"),
                json!("other"),
            ),
            &["spec.database.external.keyspace", "cannot change"],
        ),
        (
            embedded(),
            with(
                embedded(),
                &format!("{db}/embedded"),
                json!({ "storage": { "size": "20Gi" } }),
            ),
            &["spec.database.embedded.storage.size", "cannot change"],
        ),
    ];
    with_world(async |world| {
        for (n, (before, after, words)) in changes.into_iter().enumerate() {
            let name = json!(format!("chat-{n}"));
            world
                .create(&with(before, "/metadata/name", name.clone()))
                .await
                .unwrap();
            let refusal = world
                .replace(with(after.clone(), "/metadata/name", name))
                .await
                .expect_err(&format!("accepted {after}"));
            for word in words {
                assert!(refusal.contains(word), "{word:?} is not in {refusal:?}");
            }
        }
    });
}

#[test]
fn what_may_change_changes() {
    let db = "/spec/database";
    with_world(async |world| {
        world.create(&managed()).await.unwrap();
        let racks = json!([
            { "name": "a", "members": 2, "zone": "z1" }, { "name": "b", "members": 2 },
            { "name": "c" },
        ]);
        let mut wider = with(managed(), &format!("{db}/racks"), racks);
        wider["spec"]["replicas"] = json!(5);
        wider["spec"]["cache"] = json!({ "flushInterval": "1m30s" });
        wider["spec"]["database"]["image"] = json!("cassandra:5.1");
        // Naming the default is no change.
        wider["spec"]["database"]["keyspace"] = json!("readstates");
        let after = world.replace(wider).await.unwrap();
        assert_eq!(after.spec.replicas, 5);
        assert_eq!(after.spec.database.racks.unwrap()[2].members, 1);

        let moved = with(external(), "/metadata/name", json!("moved"));
        world.create(&moved).await.unwrap();
        let elsewhere = json!(["new.example", "10.0.0.7"]);
        let moved = with(moved, &format!("{db}/external/contactPoints"), elsewhere);
        world.replace(moved).await.unwrap();
    });
}

#[test]
fn what_is_left_out_gets_its_default() {
    with_world(async |world| {
        let made = world.create(&managed()).await.unwrap().spec;
        assert_eq!((made.replicas, made.paused), (3, false));
        assert_eq!(made.cache.capacity_states, 8_000_000);
        assert_eq!(made.cache.flush_interval, "30s");

        let made = world
            .create(&with(external(), "/metadata/name", json!("e1")))
            .await
            .unwrap();
        let external = made.spec.database.external.unwrap();
        assert_eq!(
            (external.port, external.keyspace.as_str()),
            (9042, "readstates")
        );

        let made = world
            .create(&with(embedded(), "/metadata/name", json!("e2")))
            .await
            .unwrap();
        assert_eq!(made.spec.database.embedded.unwrap().storage.size, "10Gi");
    });
}

#[test]
fn a_ring_never_goes_back_and_never_changes_under_one_number() {
    with_world(async |world| {
        let member = |n: i32| RingMember {
            name: format!("chat-{n}"),
            url: format!("http://chat-{n}"),
            zone: None,
        };
        let spec = |number, count| ReadStateRingSpec {
            number,
            members: (0..count).map(member).collect(),
        };
        let rings = world.api::<ReadStateRing>();
        let made = ReadStateRing::new("chat", spec(4, 2));
        rings.create(&PostParams::default(), &made).await.unwrap();
        for (wrong, words) in [
            (spec(3, 2), "number only grows"),
            (spec(4, 3), "other members need a higher number"),
        ] {
            let patch = Patch::Merge(json!({ "spec": wrong }));
            let error = rings
                .patch("chat", &PatchParams::default(), &patch)
                .await
                .unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        let patch = Patch::Merge(json!({ "spec": spec(5, 3) }));
        rings
            .patch("chat", &PatchParams::default(), &patch)
            .await
            .unwrap();
    });
}
