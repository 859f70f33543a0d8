//! The custom resource definitions, as files.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{
    backup::{ReadStateBackup, ReadStateBackupSchedule},
    cluster::ReadStateCluster,
    migration::ReadStateMigration,
    ring::ReadStateRing,
};

/// One definition and the name of the file it is kept in.
#[derive(Clone, Debug)]
pub struct CrdFile {
    /// Name of the file under `crds/`.
    pub name: &'static str,
    /// The definition.
    pub crd: CustomResourceDefinition,
}

/// Every definition, in the order to install them.
#[must_use]
pub fn crd_files() -> Vec<CrdFile> {
    vec![
        CrdFile {
            name: "readstateclusters.yaml",
            crd: ReadStateCluster::crd(),
        },
        CrdFile {
            name: "readstaterings.yaml",
            crd: ReadStateRing::crd(),
        },
        CrdFile {
            name: "readstatebackups.yaml",
            crd: ReadStateBackup::crd(),
        },
        CrdFile {
            name: "readstatebackupschedules.yaml",
            crd: ReadStateBackupSchedule::crd(),
        },
        CrdFile {
            name: "readstatemigrations.yaml",
            crd: ReadStateMigration::crd(),
        },
    ]
}
