//! Writes PodMonitors, or takes them away. In: those that are wanted. Out: what is there, in words. That Kubernetes does not
//! know the kind, or that the operator may not write it, is no error: clusters serve without.

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Preconditions},
};

use super::{Blocked, apply_one};
use crate::{error::Error, known::Known, pod_monitor::PodMonitor, spec::Identity};

/// Makes PodMonitors what is wanted. `before`: what it said last; `None` when it has never made any, and then none has to
/// be looked for.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn keep_pod_monitors(
    client: &Client,
    id: &Identity,
    wanted: &[PodMonitor],
    before: Option<&str>,
) -> Result<Option<String>, Error> {
    if wanted.is_empty() && before.is_none() {
        return Ok(None);
    }
    let refused = match write(client, id, wanted).await {
        Ok(refused) => refused,
        Err(error) => no_such_kind(error)?,
    };
    let unwanted = [id.cache(), id.database()]
        .into_iter()
        .filter(|name| wanted.iter().all(|w| w.name_any() != *name));
    for name in unwanted {
        if let Err(error) = take_away(client, id, &name).await {
            no_such_kind(error)?;
        }
    }
    let count = wanted.len();
    Ok((count > 0).then(|| refused.unwrap_or_else(|| format!("PodMonitors: {count}"))))
}

/// Why one could not be written.
async fn write(
    client: &Client,
    id: &Identity,
    wanted: &[PodMonitor],
) -> Result<Option<String>, Error> {
    // They are not watched, so nothing is known.
    let known = Known::default();
    for monitor in wanted {
        let blocked = apply_one(client, &known, id, monitor).await?;
        if let Some(blocked) = blocked {
            return Ok(Some(words(&blocked)));
        }
    }
    Ok(None)
}

fn words(blocked: &Blocked) -> String {
    match blocked {
        Blocked::Conflict { object, owner } => {
            let whose = owner.as_deref().unwrap_or("an unknown owner");
            format!("{object} belongs to {whose}")
        }
        Blocked::Leftover { object } => {
            format!("{object} of an earlier cluster of this name is not deleted yet")
        }
        Blocked::Rejected { object, message } => format!("{object} was refused: {message}"),
    }
}

async fn take_away(client: &Client, id: &Identity, name: &str) -> Result<(), Error> {
    let api: Api<PodMonitor> = Api::namespaced(client.clone(), &id.namespace);
    let what = format!("PodMonitor {name}");
    let live = api.get_opt(name).await.map_err(|source| Error::Read {
        what: what.clone(),
        source,
    })?;
    let ours = live.filter(|live| live.owner_references().iter().any(|o| o.uid == id.uid));
    let Some(live) = ours else {
        return Ok(());
    };
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: live.uid(),
        resource_version: None,
    });
    match api.delete(name, &params).await {
        Ok(_) => tracing::info!(object = what, namespace = id.namespace, "deleted"),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(source) => return Err(Error::Write { what, source }),
    }
    Ok(())
}

/// What there is instead, when the API server says that it does not know the kind, or that the operator may not.
fn no_such_kind(error: Error) -> Result<Option<String>, Error> {
    let (Error::Read { source, .. } | Error::Write { source, .. }) = &error else {
        return Err(error);
    };
    let kube::Error::Api(status) = source else {
        return Err(error);
    };
    match status.code {
        404 => Ok(Some(
            "no PodMonitor: Kubernetes does not know the kind; install the Prometheus operator"
                .to_owned(),
        )),
        403 => Ok(Some(format!(
            "no PodMonitor: the operator may not ({}); install its chart with rbac.podMonitors=true",
            status.message
        ))),
        _ => Err(error),
    }
}
