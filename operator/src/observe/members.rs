//! Reports of cache pods. In: pods. Out: an answer of each whose process runs, or why there is none; never an
//! error, since a pod that does not answer must not stop a reconcile.

use std::collections::BTreeMap;

use futures::future::join_all;

use crate::{
    admin::AdminClient,
    connections::PodClients,
    words::chain,
    world::{Member, PodSeen, Seen},
};

/// Asks every pod whose process runs, ready or not, all at once.
pub(super) async fn ask_all(
    clients: &PodClients,
    pods: &[PodSeen],
) -> BTreeMap<String, Seen<Member>> {
    let admin = &AdminClient::new(clients);
    let running = pods.iter().filter(|p| p.running);
    let asked = running.map(async |pod| (pod.name.clone(), ask(admin, pod).await));
    join_all(asked).await.into_iter().collect()
}

async fn ask(admin: &AdminClient<'_>, pod: &PodSeen) -> Seen<Member> {
    let peer = match pod.peer() {
        Ok(peer) => peer,
        Err(why) => return Seen::Unknown(why.to_owned()),
    };
    match admin.status(peer).await {
        Ok(status) if status.member != pod.name => {
            Seen::Unknown(format!("{} answered at its address", status.member))
        }
        Ok(status) => Member::try_from(status).map_or_else(Seen::Unknown, Seen::Known),
        Err(error) => Seen::Unknown(chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;
    use crate::{
        answers::fixtures::{answering, elsewhere, endless},
        connections::Connections,
        names::ports,
    };

    /// What is known of members at these addresses, which are of the release before.
    async fn heard<const N: usize>(ips: [&str; N]) -> [String; N] {
        let pods = ips.map(|ip| PodSeen {
            name: ip.to_owned(),
            ip: Some(ip.to_owned()),
            running: true,
            ..PodSeen::default()
        });
        let clients = Connections::new().unwrap().of("uid", None);
        let seen = ask_all(&clients, &pods).await;
        ips.map(|ip| match &seen[ip] {
            Seen::Unknown(why) => why.clone(),
            Seen::Known(member) => panic!("{ip} says {member:?}"),
        })
    }

    #[tokio::test]
    async fn a_member_that_never_ends_its_answer_is_unknown() {
        let (says, refuses) = ("127.0.13.1", "127.0.13.2");
        answering(says, ports::ADMIN, || endless(StatusCode::OK)).await;
        answering(refuses, ports::ADMIN, || endless(StatusCode::CONFLICT)).await;
        assert_eq!(
            heard([says, refuses]).await,
            [
                "failed to understand it: its answer is longer than 65536 bytes".to_owned(),
                format!("it answered 409: {}", "x".repeat(400)),
            ]
        );
    }

    #[tokio::test]
    async fn a_member_that_points_elsewhere_is_unknown_and_not_followed() {
        let (here, there) = ("127.0.13.3", "127.0.13.4");
        let url = format!("http://{there}:{}/", ports::ADMIN);
        answering(here, ports::ADMIN, move || elsewhere(&url)).await;
        answering(there, ports::ADMIN, || panic!("it was asked")).await;
        assert_eq!(heard([here]).await, ["it answered 302: "]);
    }
}
