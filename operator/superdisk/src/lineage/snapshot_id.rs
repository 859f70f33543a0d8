//! The name that a snapshot's maker gives it.

use crate::names::name;

name! {
    /// The name of one snapshot, such as the UID of a VolumeSnapshot: for one moment, and never for another.
    SnapshotId,
    /// A text that is no snapshot ID.
    BadSnapshotId,
    "snapshot ID"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_is_refused_with_what_an_id_is() {
        let error = "a/b".parse::<SnapshotId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "a snapshot ID has 1 to 64 letters, digits, dots, dashes or underscores"
        );
        assert_eq!("s-1".parse::<SnapshotId>().unwrap().as_str(), "s-1");
    }
}
