//! Which cluster is tested with which programs: from the environment, all of it or a list of what lacks.

use std::{env, path::PathBuf};

use anyhow::{Result, bail};

/// Where everything is that the tests use.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Kubeconfig of the cluster under test.
    pub kubeconfig: PathBuf,
    /// The program kubectl.
    pub kubectl: PathBuf,
    /// The program helm.
    pub helm: PathBuf,
    /// Folder of the chart.
    pub chart: PathBuf,
    /// Values file with the images that the cluster has.
    pub values: PathBuf,
}

impl Environment {
    /// Reads `READSTATES_E2E_*`.
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
            chart: path("CHART"),
            values: path("VALUES"),
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
