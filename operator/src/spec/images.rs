//! The images the operator was installed with.

use readstates_operator_api::Engine;

/// The images the operator was installed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Of cache pods and schema Jobs.
    pub readstates: String,
    /// Of Cassandra members.
    pub cassandra: String,
    /// Of `ScyllaDB` members.
    pub scylla: String,
    /// Of the agent beside them: the operator's own.
    pub agent: String,
    /// Of the containers that look after super-disks, if there is one.
    pub super_disk: Option<String>,
    /// Secrets by which they are pulled.
    pub pull_secrets: Vec<String>,
}

impl Images {
    /// Of the nodes of this engine. The operator has a flag for each.
    pub(crate) fn of(&self, engine: Engine) -> &str {
        match engine {
            Engine::Cassandra => &self.cassandra,
            Engine::Scylla => &self.scylla,
        }
    }
}
