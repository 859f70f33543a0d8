//! Which template pods get: an input of the templates that `plan` decides.

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::api::resource::Quantity};

use crate::world::StatefulSetSeen;

/// A rack's StatefulSet as it may be written now.
#[derive(Clone, Debug, PartialEq)]
pub struct RackStep {
    /// Which rack, by its name in the spec.
    pub rack: String,
    /// Members it may have now.
    pub members: i32,
    /// Ordinal from which members get the template.
    pub partition: i32,
    /// What its pods are to be made from.
    pub template: Template,
    /// The request that its pods are restarted for.
    pub restarted: Option<String>,
    /// Whether its pods start all at once; never changed.
    pub parallel: bool,
    /// The size at which it makes claims, if it is there; never changed.
    pub claim_size: Option<Quantity>,
    /// The version of the StatefulSet that this was decided by; `None`: there was none.
    pub version: Option<String>,
}

/// A template of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Template {
    /// The one that the spec and this operator come to.
    #[default]
    Wanted,
    /// The one that is there: the other one has to wait.
    Held {
        /// The template as the StatefulSet has it.
        template: Box<PodTemplateSpec>,
        /// Its hash, if it had one.
        template_hash: Option<String>,
        /// Hash of the spec that it was made for.
        spec_hash: Option<String>,
    },
}

impl Template {
    /// The one that this StatefulSet has.
    pub(crate) fn as_seen(set: &StatefulSetSeen) -> Self {
        set.template
            .clone()
            .map_or(Self::Wanted, |template| Self::Held {
                template,
                template_hash: set.template_hash.clone(),
                spec_hash: set.spec_hash.clone(),
            })
    }
}
