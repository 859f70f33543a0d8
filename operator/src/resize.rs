//! Asks the API server for more memory for a pod that runs: the subresource `resize`, of Kubernetes 1.33 and later. In: a
//! pod and an amount. Out: the answer. A node is not asked here; what it says is in the pod's status.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

const MIB: u64 = 1 << 20;

/// Whether it is only asked what the API server would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    DryRun,
    InEarnest,
}

/// What the API server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResizeOutcome {
    Taken,
    /// It will not: it does not know how, the operator may not, or it must not be for this pod.
    Refused(String),
    /// It may later.
    NotNow(String),
}

/// Asks for memory for the container of this name. A pod made anew meanwhile asks for as much by itself, so its UID
/// does not matter.
pub(crate) async fn memory(
    pods: &Api<Pod>,
    pod: &str,
    container: &str,
    bytes: u64,
    trial: Trial,
) -> ResizeOutcome {
    let params = PatchParams {
        dry_run: trial == Trial::DryRun,
        ..PatchParams::default()
    };
    let requests = json!({ "memory": quantity(bytes) });
    let patch = json!({ "spec": { "containers": [
        { "name": container, "resources": { "requests": requests } },
    ] } });
    let patch = Patch::Strategic(&patch);
    match pods.patch_subresource("resize", pod, &params, &patch).await {
        Ok(_) => ResizeOutcome::Taken,
        Err(kube::Error::Api(status)) => answer(status.code, &status.message),
        Err(other) => ResizeOutcome::NotNow(other.to_string()),
    }
}

/// What is said of a quota that is exhausted and of a LimitRange: a new pod would be refused just the same, and the one
/// that runs would be gone.
const FOR_ANY_POD: [&str; 2] = ["exceeded quota", "maximum memory usage per"];

fn answer(code: u16, message: &str) -> ResizeOutcome {
    let for_any_pod = || FOR_ANY_POD.iter().any(|words| message.contains(words));
    match code {
        403 if for_any_pod() => ResizeOutcome::NotNow(message.to_owned()),
        // 400 is of admission webhooks that say no, or that cannot be asked by a dry run.
        400 | 403 | 404 | 405 | 422 => ResizeOutcome::Refused(message.to_owned()),
        _ => ResizeOutcome::NotNow(message.to_owned()),
    }
}

fn quantity(bytes: u64) -> String {
    match bytes % MIB {
        0 => format!("{}Mi", bytes / MIB),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_is_told_from_one_that_cannot_now() {
        let refused = |code| matches!(answer(code, "words"), ResizeOutcome::Refused(_));
        assert_eq!([400, 403, 404, 405, 422].map(refused), [true; 5]);
        assert_eq!([409, 429, 500, 503].map(refused), [false; 4]);
        for words in [
            "pods \"chat-0\" is forbidden: exceeded quota: talk",
            "pods \"chat-0\" is forbidden: maximum memory usage per Pod is 1Gi, but request is 2Gi",
        ] {
            assert_eq!(answer(403, words), ResizeOutcome::NotNow(words.to_owned()));
        }
    }

    #[test]
    fn memory_is_written_as_people_write_it() {
        assert_eq!(quantity(494 * MIB), "494Mi");
        assert_eq!(quantity(1_000_000_000), "1000000000");
    }
}
