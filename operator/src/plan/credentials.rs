//! The Secrets that the database is logged in to by: which to make, and which to wait for.

use readstates_agent::engine::Profile;

use super::{WaitingOn, restore};
use crate::{
    spec::{Store, ValidatedCluster},
    world::{SecretSeen, World},
};

/// Which Secrets to create, with random passwords.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecretsToMake {
    /// The login of cache pods.
    pub login: bool,
    /// The superuser's, by this name.
    pub superuser: Option<&'static str>,
}

#[derive(Default)]
pub(super) struct Decision {
    pub(super) make: SecretsToMake,
    pub(super) waiting: Option<WaitingOn>,
}

pub(super) fn decide(cluster: &ValidatedCluster, world: &World) -> Decision {
    let id = &cluster.id;
    match &cluster.store {
        Store::Managed(database) => {
            // The passwords of a database that begins with copies of volumes are in its data.
            let may_make = !restore::keeps_logins(cluster, world);
            let absent = |seen: &Option<SecretSeen>| may_make && seen == &Some(SecretSeen::Absent);
            let name = database.secret.clone();
            let make = SecretsToMake {
                login: name.is_none() && absent(&world.secret),
                superuser: absent(&world.superuser).then(|| Profile::of(database.engine).superuser),
            };
            let login = missing(
                name.unwrap_or_else(|| id.login_secret()),
                world.secret.as_ref(),
            );
            let superuser = missing(id.superuser_secret(), world.superuser.as_ref());
            Decision {
                make,
                waiting: login.or(superuser),
            }
        }
        Store::External(external) => Decision {
            waiting: external
                .secret
                .clone()
                .and_then(|name| missing(name, world.secret.as_ref())),
            ..Decision::default()
        },
        Store::Embedded(_) => Decision::default(),
    }
}

fn missing(name: String, seen: Option<&SecretSeen>) -> Option<WaitingOn> {
    let missing = match seen {
        None | Some(SecretSeen::Absent) => Vec::new(),
        Some(SecretSeen::Incomplete(keys)) => keys.clone(),
        Some(SecretSeen::Complete) => return None,
    };
    Some(WaitingOn::Secret { name, missing })
}
