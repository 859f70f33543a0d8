//! What the API server refuses to be done to a published table.

use kube::api::{Patch, PatchParams, PostParams};
use readstates_operator_api::{ReadStateRing, ReadStateRingSpec, RingMember};
use serde_json::json;

use crate::world::with_world;

#[test]
fn a_ring_never_goes_back_and_never_changes_under_one_number() {
    with_world(async |world| {
        let member = |n: i32| RingMember {
            name: format!("chat-{n}"),
            url: format!("http://chat-{n}"),
            zone: None,
        };
        let spec = |number, count| ReadStateRingSpec {
            number,
            members: (0..count).map(member).collect(),
        };
        let rings = world.api::<ReadStateRing>();
        let made = ReadStateRing::new("chat", spec(4, 2));
        rings.create(&PostParams::default(), &made).await.unwrap();
        for (wrong, words) in [
            (spec(3, 2), "number only grows"),
            (spec(4, 3), "other members need a higher number"),
        ] {
            let patch = Patch::Merge(json!({ "spec": wrong }));
            let error = rings
                .patch("chat", &PatchParams::default(), &patch)
                .await
                .unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        let patch = Patch::Merge(json!({ "spec": spec(5, 3) }));
        rings
            .patch("chat", &PatchParams::default(), &patch)
            .await
            .unwrap();
    });
}
