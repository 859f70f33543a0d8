//! Real traffic through the Service of a cluster on Cassandra, and what Cassandra then holds.

use anyhow::{Context as _, Result, ensure};
use e2e::{CHANNEL, Cluster, MESSAGE, ReadState, TOKEN, Users, World};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

fn state(states: &[ReadState]) -> Result<(Option<&str>, u32)> {
    let [state] = states else {
        anyhow::bail!("expected one read state: {states:?}")
    };
    Ok((state.last_message_id.as_deref(), state.mention_count))
}

#[tokio::test]
async fn acknowledgements_mentions_and_reads_go_through_the_service() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let mut users = Users::fresh();

    ensure!(
        service.read(users.one()).await?.is_empty(),
        "a user never seen has no states"
    );

    // Enough users for every member to own some.
    let crowd = users.take(200);
    ensure!(service.mention(CHANNEL, MESSAGE, &crowd).await? == 200);
    ensure!(
        service.mention(CHANNEL, MESSAGE, &crowd).await? == 0,
        "a replay counts nothing"
    );
    ensure!(service.mention(CHANNEL, MESSAGE + 1, &crowd).await? == 200);
    for user in crowd.iter().take(20) {
        ensure!(
            state(&service.read(*user).await?)? == (None, 2),
            "user {user}"
        );
        service.ack(*user, CHANNEL, MESSAGE).await?;
        let read = service.read(*user).await?;
        ensure!(
            state(&read)? == (Some(&MESSAGE.to_string()), 1),
            "user {user}: {read:?}"
        );
        let after = service.ack(*user, CHANNEL, MESSAGE + 1).await?;
        ensure!(after.mention_count == 0, "user {user}: {after:?}");
        let replayed = service.ack(*user, CHANNEL, MESSAGE).await?;
        ensure!(
            replayed == after,
            "an older acknowledgement changes nothing: {replayed:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn every_cache_pod_gives_the_same_answer() -> Result<()> {
    let cluster = World::chat().await?;
    let mut users = Users::fresh();
    for user in users.take(12) {
        let written = cluster.member(0)?.ack(user, CHANNEL, MESSAGE).await?;
        for ordinal in 0..3 {
            let read = cluster.member(ordinal)?.read(user).await?;
            ensure!(
                read == [written.clone()],
                "member {ordinal}, user {user}: {read:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn cassandra_holds_what_the_api_answered() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let mut users = Users::fresh();
    let mut everyone = users.take(30);
    // An id beyond what a signed bigint can say.
    everyone.push(users.one() | 1 << 63);
    for (user, message) in everyone.iter().zip(MESSAGE..) {
        service.ack(*user, CHANNEL, message).await?;
        service.ack(*user, CHANNEL + 1, message).await?;
    }
    service
        .mention(CHANNEL + 1, MESSAGE + 1000, &everyone)
        .await?;

    // One state with everything a state can have.
    let whole = format!("/v1/users/{}/read-states/{CHANNEL}", everyone[0]);
    let visit =
        json!({ "message_id": (MESSAGE + 99).to_string(), "flags": 3, "last_viewed": 4112 });
    service
        .send::<Value>("POST", &format!("{whole}/ack"), Some(&visit))
        .await?;
    let pin = json!({ "last_pin_timestamp": "2026-05-04T03:02:01.5Z" });
    service
        .send::<Value>("POST", &format!("{whole}/pins/ack"), Some(&pin))
        .await?;

    let cassandra = cluster.cassandra().await?;
    flush_all(&cluster).await?;
    for user in &everyone {
        let answered = service.read(*user).await?;
        let row = cassandra
            .row(*user)
            .await?
            .with_context(|| format!("no row of user {user}"))?;
        let stored = row.read_states()?;
        ensure!(
            stored == answered,
            "user {user}: {stored:?} is stored, {answered:?} is answered"
        );
    }

    // A later write is a later timestamp: what an old member still sends can never win.
    let user = everyone[0];
    let before = cassandra.row(user).await?.context("no row")?;
    service.ack(user, CHANNEL, MESSAGE + 5000).await?;
    flush_all(&cluster).await?;
    let after = cassandra.row(user).await?.context("no row")?;
    ensure!(
        after.written > before.written && after.block != before.block,
        "{before:?} {after:?}"
    );
    Ok(())
}

async fn flush_all(cluster: &Cluster) -> Result<()> {
    for ordinal in 0..3 {
        cluster.flush(ordinal).await?;
    }
    Ok(())
}

/// The other tests go to the pods behind a Service by port-forwards; this is the way
/// of a real client: the Service's name, its cluster address, and the node's rules for it.
#[tokio::test]
async fn a_pod_reaches_the_service_by_its_name() -> Result<()> {
    let cluster = World::chat().await?;
    let user = Users::fresh().one();
    cluster.service()?.ack(user, CHANNEL, MESSAGE).await?;
    let pod = cluster
        .names::<Pod>()
        .await?
        .into_iter()
        .find(|name| name.starts_with("chat-db-"));
    let pod = pod.context("no database pod")?;
    // Its image has a shell, and the shell can speak TCP.
    let script = format!(
        "exec 3<>/dev/tcp/chat/7400 && printf 'GET /v1/users/{user}/read-states HTTP/1.1\\r\\n\
         Host: chat\\r\\nAuthorization: Bearer {TOKEN}\\r\\nConnection: close\\r\\n\\r\\n' >&3 && cat <&3"
    );
    let answer = cluster
        .kubectl(&["exec", &pod, "--", "bash", "-c", &script])
        .await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    ensure!(answer.contains(&MESSAGE.to_string()), "{answer}");
    Ok(())
}
