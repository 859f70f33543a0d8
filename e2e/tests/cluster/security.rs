//! Which callers get an answer on which port of real pods, and certificates that change under load.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use e2e::{Cluster, Look, Proof, Reached, TOKEN, Told, World, until};
use http::Method;
use readstates_identity::{Authority, ClusterName, Identity, Pems, Role};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The kubelet brings files within two minutes, and a change of CA takes three steps.
const ROTATES: Duration = Duration::from_mins(15);

/// What the callers prove, by name.
async fn proofs(cluster: &Cluster) -> Result<Vec<(&'static str, Proof)>> {
    let shown = |pems: Pems| Proof::Certificate(Box::new(pems));
    let own = async |role| anyhow::Ok(shown(cluster.pems(role).await?));
    let here = cluster.identity()?;
    let trusts = cluster.pems(Role::Operator).await?.ca;
    // It says the same names, by a CA of its own, and believes this cluster's servers.
    let forged = |role: Role, name: &ClusterName| -> Result<Proof> {
        let now = SystemTime::now();
        let pems = Authority::new(name, now, DAY)?.issue(role, name, now, DAY)?;
        let ca = format!("{}{trusts}", pems.ca);
        Ok(shown(Pems { ca, ..pems }))
    };
    Ok(vec![
        ("in the clear", Proof::Clear),
        ("no certificate", Proof::Nothing),
        ("another CA's member", forged(Role::Member, &here)?),
        ("another CA's operator", forged(Role::Operator, &here)?),
        ("member", own(Role::Member).await?),
        ("operator", own(Role::Operator).await?),
    ])
}

/// One port: the role that serves there, what is asked, and the status that each caller gets.
struct Port {
    pod: &'static str,
    number: u16,
    serves: Role,
    method: Method,
    path: &'static str,
    answered: &'static [(&'static str, u16)],
}

/// The table of ports, seen from outside. Everything that is not listed is not answered at all.
fn table() -> Vec<Port> {
    let port = |number, serves, method, path, answered| Port {
        pod: if number == 7402 {
            "chat-db-a-0"
        } else {
            "chat-0"
        },
        number,
        serves,
        method,
        path,
        answered,
    };
    let member = Role::Member;
    vec![
        port(
            7400,
            member,
            Method::GET,
            "/openapi.json",
            &[("in the clear", 200)],
        ),
        port(
            7400,
            member,
            Method::GET,
            "/v1/users/1/read-states",
            // A token is missing.
            &[("in the clear", 401)],
        ),
        port(
            7400,
            member,
            Method::POST,
            "/internal/v1/handoff",
            &[("in the clear", 401)],
        ),
        port(
            7400,
            member,
            Method::POST,
            "/internal/v1/singles",
            &[("in the clear", 401)],
        ),
        port(
            7400,
            member,
            Method::GET,
            "/admin/v1/status",
            &[("in the clear", 401)],
        ),
        port(
            7400,
            member,
            Method::GET,
            "/metrics",
            &[("in the clear", 401)],
        ),
        port(
            7401,
            member,
            Method::GET,
            "/admin/v1/status",
            &[("operator", 200)],
        ),
        port(
            7401,
            member,
            Method::GET,
            "/v1/users/1/read-states",
            &[("operator", 404)],
        ),
        port(
            7402,
            Role::Agent,
            Method::GET,
            "/v1/node",
            &[("operator", 200)],
        ),
        port(
            7403,
            member,
            Method::GET,
            "/v1/users/1/read-states",
            &[("member", 200)],
        ),
        port(
            7403,
            member,
            Method::GET,
            "/admin/v1/status",
            &[("member", 404)],
        ),
        port(
            7404,
            member,
            Method::GET,
            "/livez",
            &[("in the clear", 200)],
        ),
        port(
            7404,
            member,
            Method::GET,
            "/v1/users/1/read-states",
            &[("in the clear", 404)],
        ),
        port(
            7404,
            member,
            Method::POST,
            "/admin/v1/flush",
            &[("in the clear", 404)],
        ),
    ]
}

#[tokio::test]
async fn every_port_answers_those_who_prove_what_they_are_and_nobody_else() -> Result<()> {
    let cluster = World::chat().await?;
    let proofs = proofs(&cluster).await?;
    let mut wrong = Vec::new();
    for port in table() {
        let pod_port = cluster.pod_port(port.pod, port.number, port.serves).await?;
        for (name, proof) in &proofs {
            let expected = port.answered.iter().find(|(who, _)| who == name);
            let expected = expected.map(|&(_, status)| status);
            let reached = pod_port.ask(proof, port.method.clone(), port.path).await?;
            // A port that wants TLS answers plain HTTP with nothing, or with 400.
            let answered = reached.status().filter(|&status| status != 400);
            // The user may be another member's: it is not forwarded again, and that is an answer too.
            let elsewhere = port.number == 7403 && expected == Some(200) && answered == Some(503);
            if answered != expected && !elsewhere {
                let Port { number, path, .. } = port;
                wrong.push(format!(
                    "{number} {path}, {name}: {reached:?}, expected {expected:?}"
                ));
            }
        }
    }
    // With a valid token, internal paths are 404.
    let caller = cluster.member(0)?;
    for port in table().iter().filter(|port| port.number == 7400) {
        let answer = caller.once(port.method.as_str(), port.path, None).await?;
        let expected = if port.path == "/openapi.json" || port.path.starts_with("/v1/") {
            200
        } else {
            404
        };
        if answer.status.as_u16() != expected {
            wrong.push(format!(
                "{}, with a token: {}, expected {expected}",
                port.path, answer.status
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn a_forged_message_changes_nothing() -> Result<()> {
    let cluster = World::chat().await?;
    let told = Told::by(&cluster.service()?, 60).await?;
    let pod_port = cluster.pod_port("chat-0", 7400, Role::Member).await?;
    let paths = [
        "/internal/v1/handoff",
        "/internal/v1/singles",
        "/admin/v1/drain",
        "/admin/v1/moves",
        "/v1/users/2/read-states/..%5c..%5c6",
        "/v1/users/2/read-states/..%2f..%2f6",
    ];
    for path in paths {
        for method in [Method::POST, Method::DELETE, Method::PUT] {
            let reached = pod_port.ask(&Proof::Clear, method.clone(), path).await?;
            let refused = matches!(&reached, Reached::Answered(status) if status.is_client_error());
            ensure!(refused, "{method} {path}: {reached:?}");
        }
    }
    told.holds(&cluster.service()?).await
}

/// Waits until each member answers a caller with this token so.
async fn every_member_answers(cluster: &Cluster, token: &str, status: u16) -> Result<()> {
    until("every member has read the tokens", ROTATES, async || {
        for ordinal in 0..3 {
            let caller = cluster.member(ordinal)?.by(Some(token));
            let answer = caller.once("GET", "/v1/ring", None).await?;
            if answer.status.as_u16() != status {
                return Ok(Look::NotYet(format!(
                    "member {ordinal} says {}",
                    answer.status
                )));
            }
        }
        Ok(Look::Done(()))
    })
    .await
}

#[tokio::test]
#[ignore = "the kubelet brings the hashes of tokens three times: four minutes"]
async fn another_token_takes_over_under_load_and_nothing_is_refused_or_lost() -> Result<()> {
    const ANOTHER: &str = "another-token-of-the-end-to-end-tests";
    let cluster = World::chat().await?;
    let old = cluster.service()?;
    let new = old.by(Some(ANOTHER));
    let first = Told::during(&old, async {
        cluster.put_tokens(ANOTHER, Some(TOKEN)).await?;
        every_member_answers(&cluster, ANOTHER, 200).await
    })
    .await?;
    let second = Told::during(&new, async {
        cluster.put_tokens(ANOTHER, None).await?;
        every_member_answers(&cluster, TOKEN, 401).await
    })
    .await?;
    let third = Told::during(&new, async {
        cluster.put_tokens(TOKEN, Some(ANOTHER)).await?;
        every_member_answers(&cluster, TOKEN, 200).await
    })
    .await?;
    for told in [first, second, third] {
        told.holds(&old).await?;
    }
    cluster.put_tokens(TOKEN, None).await
}

/// The CAs that a role's Secret trusts, and the certificate that it shows.
async fn marks(cluster: &Cluster, role: Role) -> Result<(BTreeSet<String>, String)> {
    let identity = Identity::new(cluster.pems(role).await?)?;
    let trusted = identity.trusted();
    let trusted = trusted.iter().map(ToString::to_string);
    Ok((trusted.collect(), identity.mark().to_string()))
}

#[tokio::test]
#[ignore = "the kubelet brings each of three steps: five minutes"]
async fn another_ca_takes_over_under_load_and_nothing_is_refused_or_lost() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let before = Told::by(&service, 60).await?;
    let (old, shown) = marks(&cluster, Role::Member).await?;
    let rotate = async {
        let wish = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let wish = wish.as_secs().to_string();
        cluster
            .annotate("readstates.dev/rotate-identity", &wish)
            .await?;
        until("only another CA is trusted", ROTATES, async || {
            let (trusted, now) = marks(&cluster, Role::Member).await?;
            Ok(if trusted.is_disjoint(&old) && now != shown {
                Look::Done(())
            } else {
                Look::NotYet(format!("{trusted:?} are trusted, {old:?} was"))
            })
        })
        .await?;
        // Members have read the last of it when they still find each other.
        cluster.wait_for("Available", ROTATES).await
    };
    let meanwhile = Told::during(&service, rotate).await?;
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;
    for role in [Role::Operator, Role::Agent] {
        let (trusted, _) = marks(&cluster, role).await?;
        ensure!(trusted.is_disjoint(&old), "{role} still trusts {old:?}");
    }
    cluster.flush(0).await?;
    cluster.has_members(3).await
}
