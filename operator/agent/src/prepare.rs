//! Before the database starts: hands the program on to the sidecar, looks at the disk, and waits for the
//! order to start where the disk is not this node's own.

use std::{fs, io, net::IpAddr, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use anyhow::Context as _;
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use readstates_identity::Identity;
use tokio::sync::watch;

use crate::{
    args::{Common, PrepareArgs},
    disk,
    engine::Profile,
    keystore, layout, mutual,
    order::{self, Refusal},
    start,
    wire::{Disk, Phase, Report, Start},
};

/// Name of the program in the shared folder.
const PROGRAM: &str = "agent";
/// Name of the start file in the shared folder.
const START: &str = "start";

/// Ends when the database may start.
///
/// # Errors
/// When the disk or the shared folder cannot be used.
pub(super) async fn prepare(args: PrepareArgs) -> anyhow::Result<()> {
    hand_on(&args.shared).context("failed to copy the program")?;
    if let (Some(folder), Some(file)) = (&args.certificates, &args.keystore) {
        keystore::write(folder, file).context("failed to hand on the certificates")?;
    }
    if args.super_disk {
        disk::on_super_disk(&args.common.data).context("the super-disk is not there")?;
    }
    let found = disk::read(&args.common.data)
        .with_context(|| format!("failed to look at {}", args.common.data.display()))?;
    tracing::info!(disk = ?found, "looked at the disk");
    let own =
        own_node(&args.node).with_context(|| format!("failed to read {}", args.node.display()))?;
    let order = match &found {
        Disk::Known { host_id, .. } if own.as_ref() == Some(host_id) => by_itself(&args).await,
        // A copy of another node's disk, or one of a node that was replaced, would be a second owner of its identity.
        Disk::Known { .. } | Disk::Blank | Disk::Begun | Disk::Unmarked => {
            ordered(&args, found.clone()).await?
        }
    };
    let dialect = &Profile::of(args.common.engine).start;
    let mut text = start::file(dialect, args.common.address, &order).map_err(anyhow::Error::msg)?;
    text += &measured(&args.common)?;
    if matches!(found, Disk::Blank) {
        // From here on the disk has an owner, whether or not the start succeeds.
        let common = &args.common;
        disk::sign(&common.data, None, &common.pod_name).context("failed to sign the disk")?;
    }
    fs::write(args.shared.join(START), text).context("failed to write the start file")?;
    tracing::info!(seeds = ?order.seeds, replace = ?order.replace, "the database may start");
    Ok(())
}

/// The node that this pod is, where the operator has said so.
fn own_node(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|id| !id.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the engine gets to know about the disk's speed, if it uses that.
fn measured(common: &Common) -> anyhow::Result<String> {
    let Some(variable) = Profile::of(common.engine).disk_figures else {
        return Ok(String::new());
    };
    let layout = layout::of(&common.data).context("failed to ask what the disk is made of")?;
    let Some(file) = layout::figures(&common.data, &layout) else {
        tracing::warn!(busy = ?layout.busy, "the disk is not measured while it does this");
        return Ok(String::new());
    };
    tracing::info!(file = ?file, measured = file.exists(), "the disk's figures");
    Ok(format!("export {variable}='{}'\n", file.display()))
}

/// The sidecar runs in the database's image, which does not have this program.
fn hand_on(shared: &Path) -> std::io::Result<()> {
    let program = shared.join(PROGRAM);
    fs::copy(std::env::current_exe()?, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
}

/// The order of a node that comes back: it finds the others by name. Its own address is a seed, too: it has its data
/// and will not take over another node's, and it must be able to come back first after all nodes were away.
async fn by_itself(args: &PrepareArgs) -> Start {
    let own = args.common.address;
    let found = match tokio::net::lookup_host((args.peers.as_str(), 0)).await {
        Ok(found) => found.map(|a| a.ip()).collect(),
        Err(error) => {
            tracing::warn!(%error, peers = args.peers, "failed to find the other nodes");
            Vec::new()
        }
    };
    Start {
        pod_uid: args.common.pod_uid.clone(),
        seeds: seeds(found, own).iter().map(ToString::to_string).collect(),
        replace: None,
        ignore_dead: Vec::new(),
    }
}

/// The others first. Nodes speak the family of their pods' first address: with two families, a name has both.
fn seeds(found: Vec<IpAddr>, own: IpAddr) -> Vec<IpAddr> {
    let of_its_family = |ip: &IpAddr| ip.is_ipv4() == own.is_ipv4() && *ip != own;
    let mut seeds: Vec<IpAddr> = found.into_iter().filter(of_its_family).collect();
    seeds.sort_unstable();
    seeds.push(own);
    seeds
}

struct Waiting {
    args: PrepareArgs,
    disk: Disk,
    identity: Arc<Identity>,
    order: watch::Sender<Option<Start>>,
}

async fn ordered(args: &PrepareArgs, disk: Disk) -> anyhow::Result<Start> {
    let identity = mutual::identity(&args.common.identity).await;
    let operators = mutual::listen(args.common.listen, &identity).await?;
    let (sender, mut receiver) = watch::channel(None);
    let state = Arc::new(Waiting {
        args: args.clone(),
        disk,
        identity,
        order: sender,
    });
    let mut done = receiver.clone();
    let stop = async move {
        // An error would mean that no order can come any more: the server ends as well.
        let _ = done.wait_for(Option::is_some).await;
    };
    let server = axum::serve(operators, router(state)).with_graceful_shutdown(stop);
    server.await.context("failed to serve")?;
    let order = receiver.borrow_and_update().clone();
    order.context("the server ended without an order")
}

fn router(state: Arc<Waiting>) -> Router {
    Router::new()
        .route("/v1/node", get(report))
        .route("/v1/start", post(take))
        .with_state(state)
}

async fn report(State(state): State<Arc<Waiting>>) -> Json<Report> {
    Json(Report {
        pod_uid: state.args.common.pod_uid.clone(),
        identity: Some(mutual::status(&state.identity)),
        phase: Phase::Waiting {
            disk: state.disk.clone(),
            free_bytes: disk::free_bytes(&state.args.common.data).ok(),
        },
    })
}

async fn take(
    State(state): State<Arc<Waiting>>,
    Json(order): Json<Start>,
) -> Result<StatusCode, Refusal> {
    let common = &state.args.common;
    order::check(&order.pod_uid, &common.pod_uid)?;
    start::file(&Profile::of(common.engine).start, common.address, &order)
        .map_err(|words| order::refuse(StatusCode::BAD_REQUEST, words))?;
    if matches!(state.disk, Disk::Known { .. }) && order.replace.is_some() {
        let words = "there is a node's data on the disk, which is not started over";
        return Err(order::refuse(StatusCode::CONFLICT, words));
    }
    state.order.send_replace(Some(order));
    Ok(StatusCode::ACCEPTED)
}

#[cfg(test)]
mod tests;
