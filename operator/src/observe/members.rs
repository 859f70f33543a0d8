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
