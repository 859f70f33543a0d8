//! Allowed successions of an engine's releases, by the tags of their images: nothing else is known of an image before a
//! pod runs it. A tag that names no release (a digest, `latest`) is not judged.

use readstates_agent::engine::{Line, Profile};
use readstates_operator_api::{Engine, labels};

use super::{DatabaseTrouble, Sight};
use crate::{templates, world::StatefulSetSeen};

/// Why the pods of a rack may not get the wanted image, unless a user has accepted it.
pub(super) fn against(sight: &Sight<'_>, seen: &StatefulSetSeen) -> Option<DatabaseTrouble> {
    let from = templates::database_image(seen.template.as_deref()?)?;
    let to = &sight.database.image;
    if sight.world.consent.engine_version.as_ref() == Some(to) {
        return None;
    }
    let why = refused(sight.database.engine, from, to)?;
    Some(DatabaseTrouble::EngineVersion {
        words: format!(
            "the pods run {from}, and {to} was asked for: {why}; or have it done all the same with the annotation {}={to}",
            labels::ACCEPT_ENGINE_VERSION
        ),
    })
}

/// What speaks against the second image after the first one, and what to do instead.
fn refused(engine: Engine, from: &str, to: &str) -> Option<String> {
    let (old, new) = (line(from)?, line(to)?);
    if new < old {
        return Some(format!(
            "no node of {new} reads what one of {old} has written; restore a backup instead"
        ));
    }
    let allowed = (Profile::of(engine).may_follow)(old, new);
    (!allowed).then(|| {
        format!("{new} cannot follow {old} at once; go by every release that its upgrade guide names in between")
    })
}

/// Whether these are images of two releases, or of such as are not known to be one.
pub(super) fn differ(from: &str, to: &str) -> bool {
    from != to && release(from).is_none_or(|from| Some(from) != release(to))
}

/// Whether both are of one line, whose members read each other's disks.
pub(super) fn one_line(from: &str, to: &str) -> bool {
    line(from).is_some_and(|from| Some(from) == line(to))
}

/// Whether nodes of the second image start on the disks of nodes of the first one, for all that their names say.
pub(in crate::plan) fn reads_disks_of(from: &str, to: &str) -> bool {
    !differ(from, to) || one_line(from, to)
}

/// `5.0.9` of `5.0.9-jre17`, where the tag names a full release.
fn release(image: &str) -> Option<&str> {
    let tag = tag(image)?.trim_start_matches('v');
    let end = tag.find(|c: char| !c.is_ascii_digit() && c != '.');
    let release = &tag[..end.unwrap_or(tag.len())];
    (release.split('.').filter(|part| !part.is_empty()).count() >= 3).then_some(release)
}

/// `5.0.9-jre17` of `registry:5000/cassandra:5.0.9-jre17@sha256:…`.
pub(super) fn tag(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.split_once(':').map(|(_, tag)| tag)
}

/// `5.0` of `5.0.9-jre17`.
fn line(image: &str) -> Option<Line> {
    let tag = tag(image)?;
    let mut numbers = tag.trim_start_matches('v').splitn(3, '.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?;
    let digits = minor
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(minor.len());
    Some(Line {
        major,
        minor: minor[..digits].parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_the_tag_and_from_nothing_else() {
        for (image, wanted) in [
            ("cassandra:5.0.9", Some((5, 0))),
            ("registry:5000/mirror/cassandra:4.1", Some((4, 1))),
            ("cassandra:5.0-jre17@sha256:ab", Some((5, 0))),
            ("scylladb/scylla:2025.1.13", Some((2025, 1))),
            ("mine:v5.1-rc1", Some((5, 1))),
            ("registry:5000/cassandra", None),
            ("cassandra@sha256:5.0", None),
            ("cassandra:5", None),
            ("cassandra:latest", None),
        ] {
            let found = line(image).map(|line| (line.major, line.minor));
            assert_eq!(found, wanted, "{image}");
        }
    }

    #[test]
    fn another_registry_or_variant_of_a_release_is_no_other_release() {
        for (from, to, differs) in [
            ("cassandra:5.0.9", "mirror:5000/cassandra:5.0.9", false),
            ("cassandra:5.0.9", "cassandra:5.0.9-jre17@sha256:ab", false),
            ("cassandra:5.0.9", "cassandra:5.0.10", true),
            ("cassandra:5.0.9", "cassandra:4.1.9", true),
            // Which release these are is not known.
            ("cassandra:5.0", "mirror/cassandra:5.0", true),
            ("cassandra:latest", "cassandra:5.0.9", true),
            ("cassandra@sha256:a", "cassandra@sha256:b", true),
            ("cassandra:latest", "cassandra:latest", false),
        ] {
            assert_eq!(differ(from, to), differs, "{from} {to}");
        }
    }

    #[test]
    fn a_release_follows_those_that_its_engine_lets_it_follow_and_never_a_later_one() {
        use Engine::{Cassandra, Scylla};
        for (engine, from, to, allowed) in [
            (Cassandra, "4.1.3", "5.0.9", true),
            (Cassandra, "3.11.9", "5.0.9", false),
            (Cassandra, "5.0.9", "5.0.8", true),
            (Cassandra, "5.0.9", "4.1.3", false),
            (Cassandra, "5.0.9", "latest", true),
            (Scylla, "2025.1.13", "2025.4.1", true),
            (Scylla, "2025.1.13", "2026.2.0", false),
            (Scylla, "2025.2.1", "2025.1.13", false),
        ] {
            let image = |tag: &str| format!("image:{tag}");
            let refused = refused(engine, &image(from), &image(to));
            assert_eq!(
                refused.is_none(),
                allowed,
                "{engine:?} {from} to {to}: {refused:?}"
            );
        }
    }
}
