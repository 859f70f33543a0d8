//! Rules and defaults of the CRDs at the API server, one at a time.

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

/// Creating each is refused, in these words.
fn refused(cases: Vec<(Value, &[&str])>) {
    with_world(async |world| {
        for (cluster, words) in &cases {
            let refusal = world.create(cluster).await;
            says(&refusal.expect_err(&format!("accepted {cluster}")), words);
        }
    });
}

/// Changing the first of each into the second is refused, in these words.
fn change_refused(changes: Vec<(Value, Value, &[&str])>) {
    with_world(async |world| {
        for (n, (before, after, words)) in changes.into_iter().enumerate() {
            let name = json!(format!("chat-{n}"));
            let before = with(before, "/metadata/name", name.clone());
            world.create(&before).await.unwrap();
            let refusal = world
                .replace(with(after.clone(), "/metadata/name", name))
                .await;
            says(&refusal.expect_err(&format!("accepted {after}")), words);
        }
    });
}

fn says(refusal: &str, words: &[&str]) {
    for word in words {
        assert!(refusal.contains(word), "{word:?} is not in {refusal:?}");
    }
}

/// `managed()` with this field of `spec.database` replaced.
fn db(field: &str, value: Value) -> Value {
    with(managed(), &format!("/spec/database/{field}"), value)
}

/// `external()` with this field of `spec.database.external` replaced.
fn ext(field: &str, value: Value) -> Value {
    with(
        external(),
        &format!("/spec/database/external/{field}"),
        value,
    )
}

#[test]
fn exactly_one_kind_of_database_is_asked_for() {
    let words: &[&str] = &[
        "spec.database",
        "exactly one of engine, external and embedded",
    ];
    refused(vec![
        (db("embedded", json!({})), words),
        (with(managed(), "/spec/database", json!({})), words),
        (
            with(managed(), "/spec/database", Value::Null),
            &["spec.database", "Required"],
        ),
        (
            db("engine", json!("Oracle")),
            &["spec.database.engine", "Cassandra", "Scylla"],
        ),
        (
            with(
                external(),
                "/spec/database/storage",
                json!({ "size": "1Gi" }),
            ),
            &["spec.database", "are valid only with engine"],
        ),
        (
            with(
                external(),
                "/spec/database/secretRef",
                json!({ "name": "mine" }),
            ),
            &["spec.database", "are valid only with engine"],
        ),
        (
            with(embedded(), "/spec/database/clients", json!([{}])),
            &["spec.database", "are valid only with engine"],
        ),
        (
            with(
                external(),
                "/spec/database/settings",
                json!({ "concurrent_reads": "24" }),
            ),
            &["spec.database", "are valid only with engine"],
        ),
        (
            db("settings", json!({ "concurrent_reads": "24; reboot" })),
            &["spec.database.settings.concurrent_reads"],
        ),
        (
            db("developerMode", json!(false)),
            &["spec.database.developerMode", "only with engine Scylla"],
        ),
        (
            db("secretRef", json!({ "name": "" })),
            &["spec.database.secretRef", "must not be empty"],
        ),
    ]);
}

#[test]
fn an_engine_needs_racks_storage_and_a_replication_factor_they_can_hold() {
    let factor = "spec.database.replicationFactor";
    refused(vec![
        (
            db("replicationFactor", Value::Null),
            &[factor, "required with engine"],
        ),
        (
            db("replicationFactor", json!(4)),
            &[factor, "must not exceed the members"],
        ),
        (
            db("racks", Value::Null),
            &["spec.database.racks", "required with engine"],
        ),
        (
            db("storage", Value::Null),
            &["spec.database.storage", "required with engine"],
        ),
        (
            db("storage/size", json!("much")),
            &["spec.database.storage.size", "must be a quantity"],
        ),
        (
            db("storage/size", json!("0")),
            &["spec.database.storage.size", "must be a quantity"],
        ),
        (
            db("keyspace", json!("Read-States")),
            &["spec.database.keyspace"],
        ),
    ]);
}

#[test]
fn racks_have_names_that_fit_and_members() {
    let name = "spec.database.racks[1].name";
    refused(vec![
        (db("racks", json!([])), &["spec.database.racks"]),
        (
            db("racks/1/name", json!("a")),
            &["spec.database.racks[1]", "Duplicate value"],
        ),
        (db("racks/1/name", json!("Rack_1")), &[name]),
        (db("racks/1/name", json!("r".repeat(25))), &[name, "24"]),
        (
            db("racks/1/members", json!(-1)),
            &["spec.database.racks[1].members"],
        ),
        (
            db("racks/0/members", json!(0)),
            &["the first rack must have a member"],
        ),
        (
            with(
                db("racks/1/name", json!("nine-char")),
                "/metadata/name",
                json!("c".repeat(40)),
            ),
            &["metadata.name and the longest name in spec.database.racks"],
        ),
    ]);
}

#[test]
fn an_external_database_is_told_how_to_be_reached() {
    let points = "spec.database.external.contactPoints";
    refused(vec![
        (ext("contactPoints", json!([])), &[points]),
        (ext("contactPoints/0", json!("db:9042")), &[points]),
        (
            ext("localDatacenter", Value::Null),
            &["spec.database.external.localDatacenter", "Required"],
        ),
        (
            ext("secretRef", json!({ "name": "" })),
            &["spec.database.external.secretRef", "must not be empty"],
        ),
    ]);
}

#[test]
fn replicas_and_cache_are_within_bounds() {
    let cache = |field: &str, value: Value| with(managed(), "/spec/cache", json!({ field: value }));
    let interval = "spec.cache.flushInterval";
    let one = "must be 1 with database.embedded";
    refused(vec![
        (
            with(managed(), "/spec/replicas", json!(0)),
            &["spec.replicas"],
        ),
        (
            with(managed(), "/spec/replicas", json!(65)),
            &["spec.replicas"],
        ),
        (
            with(embedded(), "/spec/replicas", json!(2)),
            &["spec.replicas", one],
        ),
        (
            with(embedded(), "/spec/replicas", Value::Null),
            &["spec.replicas", one],
        ),
        (
            cache("capacityStates", json!(0)),
            &["spec.cache.capacityStates"],
        ),
        (cache("flushInterval", json!("soon")), &[interval]),
        (
            cache("flushInterval", json!("500ms")),
            &[interval, "between 1s and 10m"],
        ),
        (
            cache("flushInterval", json!("11m")),
            &[interval, "between 1s and 10m"],
        ),
        (
            cache("durability", json!("Journal")),
            &["spec.cache.durability", "valid only with database.embedded"],
        ),
        (
            cache("durability", json!("Never")),
            &["spec.cache.durability", "\"Journal\", \"Interval\""],
        ),
        (
            with(managed(), "/spec/imagePullPolicy", json!("Sometimes")),
            &["spec.imagePullPolicy"],
        ),
        (
            with(managed(), "/spec/replcias", json!(3)),
            &["unknown field", "spec.replcias"],
        ),
    ]);
}

#[test]
fn a_name_is_one_that_services_and_pods_can_have() {
    let words: &[&str] = &["metadata.name must be at most 40 characters"];
    let named = |name: &str| with(managed(), "/metadata/name", json!(name));
    refused(vec![
        (named(&"a".repeat(41)), words),
        (named("1chat"), words),
        (named("chat.eu"), words),
    ]);
}

#[test]
fn a_change_that_would_leave_data_behind_is_refused() {
    let elsewhere = with(managed(), "/spec", external()["spec"].clone());
    let bigger = json!({ "storage": { "size": "20Gi" } });
    change_refused(vec![
        (
            managed(),
            db("engine", json!("Scylla")),
            &["spec.database", "cannot change"],
        ),
        (managed(), elsewhere, &["spec.database", "cannot change"]),
        (
            managed(),
            db("keyspace", json!("x")),
            &["spec.database.keyspace", "cannot change"],
        ),
        (
            managed(),
            db("storage/size", json!("9.9Gi")),
            &["spec.database.storage.size", "cannot shrink"],
        ),
        (
            managed(),
            db("storage/storageClassName", Value::Null),
            &["spec.database.storage", "storageClassName cannot change"],
        ),
        (
            external(),
            ext("keyspace", json!("x")),
            &["spec.database.external.keyspace", "cannot change"],
        ),
        (
            embedded(),
            with(embedded(), "/spec/database/embedded", bigger),
            &["spec.database.embedded.storage.size", "cannot change"],
        ),
    ]);
}

#[test]
fn certificates_come_from_one_place_and_go_with_a_database_that_is_spoken_to() {
    let secret = json!({ "secretName": "certs" });
    let issuer = json!({ "issuerRef": { "name": "ours" } });
    let both = json!({ "secretName": "certs", "issuerRef": { "name": "ours" } });
    let internode = json!({ "secretName": "certs", "internode": true });
    let one: &[&str] = &[
        "spec.database.tls",
        "exactly one of secretName and issuerRef",
    ];
    let theirs = with(external(), "/spec/database/tls", issuer.clone());
    let scylla = |tls| with(db("tls", tls), "/spec/database/engine", json!("Scylla"));
    refused(vec![
        (db("tls", both), one),
        (db("tls", json!({})), one),
        (
            db("tls", json!({ "secretName": "Certs" })),
            &["spec.database.tls.secretName"],
        ),
        (theirs, &["spec.database.tls", "to the Secret with the CA"]),
        (
            with(external(), "/spec/database/tls", internode.clone()),
            &["spec.database.tls.internode", "only with engine"],
        ),
        (
            with(embedded(), "/spec/database/tls", secret.clone()),
            &["spec.database.tls", "only with engine or external"],
        ),
    ]);
    let cannot: &[&str] = &[
        "spec.database",
        "tls cannot change with engine",
        "update the same Secret",
        "create a new ReadStateCluster",
    ];
    change_refused(vec![
        (managed(), db("tls", secret.clone()), cannot),
        (db("tls", secret.clone()), managed(), cannot),
        (db("tls", secret.clone()), db("tls", issuer.clone()), cannot),
        (
            db("tls", issuer),
            db("tls", json!({ "issuerRef": { "name": "theirs" } })),
            cannot,
        ),
        (
            scylla(secret.clone()),
            scylla(internode.clone()),
            &["spec.database.tls.internode", "with engine Scylla"],
        ),
        (
            scylla(internode.clone()),
            scylla(secret.clone()),
            &["spec.database.tls.internode", "with engine Scylla"],
        ),
    ]);
    // An external database may start using TLS; and nodes of Cassandra may, between them, and stop it.
    with_world(async |world| {
        world.create(&external()).await.unwrap();
        let begun = with(external(), "/spec/database/tls", secret.clone());
        world.replace(begun).await.unwrap();
    });
    with_world(async |world| {
        world.create(&db("tls", secret.clone())).await.unwrap();
        for tls in [&internode, &secret, &internode] {
            world.replace(db("tls", tls.clone())).await.unwrap();
        }
    });
}

#[test]
fn a_change_that_would_lose_copies_is_refused() {
    let swapped = json!([
        { "name": "b", "members": 2 }, { "name": "a", "members": 1, "zone": "z1" },
    ]);
    change_refused(vec![
        (
            managed(),
            db("racks/0/zone", json!("z2")),
            &["spec.database.racks[0]", "zone cannot change"],
        ),
        (
            managed(),
            db("racks/1/name", json!("c")),
            &["spec.database.racks", "cannot be removed"],
        ),
        (
            managed(),
            db("racks", swapped),
            &["spec.database.racks", "first rack must stay first"],
        ),
    ]);
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
        // Fewer members are a wish that the operator carries out as far as it is safe.
        let fewer = with(managed(), &format!("{db}/racks/1/members"), json!(1));
        world.replace(fewer).await.unwrap();
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
