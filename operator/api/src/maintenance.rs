//! `spec.maintenance`: when serving pods may be restarted, and at what pace.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When serving pods may be restarted, for a change or on request, and how long the operator waits between two
/// restarts. Healing, scaling and stopping a cluster do not wait for a window.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceSpec {
    /// When restarts may begin; a restart that has begun is completed. Default: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub windows: Option<Vec<WindowSpec>>,

    /// Minimum time between two restarts of cache pods, and between two of database pods, from 0s to 24h: `10m`,
    /// `1h30m`. Default: 0s, so that the next pod is restarted as soon as all are ready again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    #[x_kube(
        validation = Rule::new(
            "!self.matches('^([0-9]{1,6}(s|m|h))+$') || (duration(self) >= duration('0s') && \
             duration(self) <= duration('24h'))"
        ).message("pace must be between 0s and 24h")
    )]
    pub pace: Option<String>,
}

/// A weekly maintenance window.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WindowSpec {
    /// Days of the week on which the window begins, in UTC. Default: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 7))]
    pub days: Option<Vec<Day>>,

    /// Time at which the window begins, in UTC: `02:30`.
    #[schemars(length(max = 5), regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,

    /// Length of the window, from 10m to 24h: `3h`, `1h30m`. It may end on the next day.
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    #[x_kube(
        validation = Rule::new(
            "!self.matches('^([0-9]{1,6}(s|m|h))+$') || (duration(self) >= duration('10m') && \
             duration(self) <= duration('24h'))"
        ).message("duration must be between 10m and 24h")
    )]
    pub duration: String,
}

/// A day of the week.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Day {
    /// Monday.
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}
