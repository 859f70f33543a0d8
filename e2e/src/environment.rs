//! The cluster and programs under test: read from the environment, all of it or a list of what is missing.

use std::{env, path::PathBuf};

use anyhow::{Result, bail};

/// Where everything is that the tests use.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Kubeconfig of the cluster under test.
    pub kubeconfig: PathBuf,
    pub kubectl: PathBuf,
    pub helm: PathBuf,
    pub release: Release,
    /// The program docker, where the nodes are containers of it: what no API can do is done in there.
    pub docker: Option<PathBuf>,
    /// Another name under which the nodes have the image of the cache pods.
    pub other_image: Option<String>,
    /// An image of another release of Cassandra than the one of the chart's values, and of the same release line.
    pub former_cassandra: Option<String>,
    /// The release before, where an upgrade from it is tried.
    pub old: Option<Release>,
}

/// What helm installs.
#[derive(Clone, Debug)]
pub struct Release {
    /// Folder of the chart.
    pub chart: PathBuf,
    /// Values file with the images that the cluster has.
    pub values: PathBuf,
}

impl Environment {
    /// Reads `READSTATES_E2E_*`; `DOCKER`, `OTHER_IMAGE`, `FORMER_CASSANDRA`, and `OLD_CHART` with `OLD_VALUES` may be missing.
    ///
    /// # Errors
    /// Names every variable that is not set or leads nowhere.
    pub fn read() -> Result<Self> {
        let mut wrong = Vec::new();
        let mut path = |name: &str| {
            let name = format!("READSTATES_E2E_{name}");
            let path = env::var_os(&name).map(PathBuf::from).unwrap_or_default();
            match path.canonicalize() {
                Ok(path) => path,
                Err(_) if path.as_os_str().is_empty() => {
                    wrong.push(format!("{name} is not set"));
                    path
                }
                Err(error) => {
                    wrong.push(format!("{name}={}: {error}", path.display()));
                    path
                }
            }
        };
        let environment = Self {
            kubeconfig: path("KUBECONFIG"),
            kubectl: path("KUBECTL"),
            helm: path("HELM"),
            release: Release {
                chart: path("CHART"),
                values: path("VALUES"),
            },
            docker: env::var_os("READSTATES_E2E_DOCKER").map(PathBuf::from),
            other_image: env::var("READSTATES_E2E_OTHER_IMAGE").ok(),
            former_cassandra: env::var("READSTATES_E2E_FORMER_CASSANDRA").ok(),
            old: env::var_os("READSTATES_E2E_OLD_CHART").map(|_| Release {
                chart: path("OLD_CHART"),
                values: path("OLD_VALUES"),
            }),
        };
        if !wrong.is_empty() {
            bail!(
                "these tests need a cluster, see hack/test: {}",
                wrong.join("; ")
            );
        }
        Ok(environment)
    }
}
