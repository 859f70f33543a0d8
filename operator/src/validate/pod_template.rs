//! `podTemplate` of cache and database: what the CRD's rules cannot say of it.

use readstates_agent::engine::Profile;
use readstates_operator_api::{Engine, PodTemplate};

use super::Checker;

/// Prefixes of variables that the operator sets in cache pods.
const OF_CACHE: [&str; 1] = ["READSTATES_"];
/// Those of them that are a person's to set: a second database, to which the table moves.
const OF_A_MOVE: [&str; 2] = ["READSTATES_MOVING_TO", "READSTATES_TO_"];

impl Checker {
    pub(super) fn pods_of_cache(
        &mut self,
        overlay: Option<&PodTemplate>,
    ) -> Option<Box<PodTemplate>> {
        self.pods("spec.cache.podTemplate", overlay, &OF_CACHE)
    }

    pub(super) fn pods_of_database(
        &mut self,
        engine: Engine,
        overlay: Option<&PodTemplate>,
    ) -> Option<Box<PodTemplate>> {
        let ours = Profile::of(engine).variables;
        self.pods("spec.database.podTemplate", overlay, ours)
    }

    fn pods(
        &mut self,
        field: &str,
        overlay: Option<&PodTemplate>,
        ours: &[&str],
    ) -> Option<Box<PodTemplate>> {
        let overlay = overlay?;
        for (at, variable) in overlay.env.iter().flatten().enumerate() {
            let name = &variable.name;
            let begins = |prefix: &&str| name.starts_with(prefix);
            if ours.iter().any(begins) && !OF_A_MOVE.iter().any(begins) {
                self.wrong(
                    format!("{field}.env[{at}].name"),
                    format!("{name} is set by the operator: leave it out"),
                );
            }
        }
        for (what, keys) in [
            ("labels", &overlay.labels),
            ("annotations", &overlay.annotations),
        ] {
            // What a CRD older than this operator would let pass.
            for key in keys.iter().flatten().map(|(key, _)| key) {
                if key.starts_with("readstates.dev/") {
                    self.wrong(format!("{field}.{what}"), format!("{key} is reserved"));
                }
            }
        }
        self.extras(field, overlay);
        Some(Box::new(overlay.clone()))
    }
}
