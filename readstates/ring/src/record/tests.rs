use proptest::{collection::vec, prelude::*};

use super::*;
use crate::SLOTS;

/// 2026-11-21, about.
const NOW: i64 = 1_795_000_000_000_000;

fn member(number: u64) -> RingMember {
    let zone = number.is_multiple_of(2).then(|| "a".to_owned());
    let url = format!("http://chat-{number}:7400");
    RingMember::new(
        format!("chat-{number}"),
        Incarnation::new(number),
        url,
        zone,
    )
    .unwrap()
}

fn slot(number: u16) -> Slot {
    Slot::new(number).unwrap()
}

/// What a member that knows the table asks for.
fn known(table: &RingTable, slots: &[u16]) -> Vec<(Slot, Option<Epoch>)> {
    let at = |&number: &u16| (slot(number), table.config(slot(number)).map(|c| c.epoch()));
    slots.iter().map(at).collect()
}

fn swap(table: &RingTable, slots: &[u16], owner: u64, how: Succession) -> RingTable {
    let asked = known(table, slots);
    table.swap(&asked, &member(owner), how, NOW).unwrap()
}

#[test]
fn the_first_swap_makes_the_first_ring() {
    let table = swap(&RingTable::default(), &[3, 7], 1, Succession::TakenOver);
    assert_eq!(table.number(), 1);
    assert_eq!(table.members(), [member(1)]);
    assert_eq!(table.owner(slot(7)), Some(&member(1)));
    assert_eq!(table.owner(slot(8)), None);
    assert_eq!(table.owned_by(Incarnation::new(1)).count(), 2);
    let owners = table.owners();
    assert_eq!((owners.len(), owners[3], owners[4]), (1024, Some(0), None));
}

#[test]
fn a_line_is_written_and_read_and_an_older_release_keeps_it() {
    let table = swap(&RingTable::default(), &[3], 1, Succession::TakenOver);
    let line = Line::new(0x5eed);
    let table = table.on_line(line);
    let json = table.to_json();
    assert!(String::from_utf8_lossy(&json).contains(r#""line":"0000000000005eed""#));
    assert_eq!(RingTable::from_json(&json).unwrap().line(), line);
    let handed = swap(&table, &[3], 2, Succession::Handed);
    assert_eq!(handed.line(), line);
    assert_eq!(RingTable::empty(7).line(), Line::NONE);
}

#[test]
fn a_member_is_listed_as_long_as_it_owns_a_slot() {
    let table = swap(&RingTable::default(), &[1, 2], 1, Succession::TakenOver);
    let table = swap(&table, &[1], 2, Succession::Handed);
    assert_eq!(table.members(), [member(1), member(2)]);
    let table = swap(&table, &[2], 2, Succession::Handed);
    assert_eq!(table.members(), [member(2)]);
    assert_eq!(table.owners()[1], Some(0));
    assert_eq!(table.number(), 3);
}

#[test]
fn what_was_handed_on_inherits_and_what_was_taken_does_not() {
    let before = swap(&RingTable::default(), &[1], 1, Succession::TakenOver);
    let epoch = before.config(slot(1)).unwrap().epoch();
    let handed = swap(&before, &[1], 2, Succession::Handed);
    assert_eq!(handed.config(slot(1)).unwrap().inherits(), Some(epoch));
    let taken = swap(&before, &[1], 2, Succession::TakenOver);
    assert_eq!(taken.config(slot(1)).unwrap().inherits(), None);
}

#[test]
fn one_slot_at_another_epoch_refuses_all_that_were_asked() {
    let old = swap(&RingTable::default(), &[1, 2], 1, Succession::TakenOver);
    let new = swap(&old, &[2], 2, Succession::TakenOver);
    let epoch = |table: &RingTable| table.config(slot(2)).map(|config| config.epoch());
    assert_eq!(
        new.swap(
            &known(&old, &[1, 2]),
            &member(3),
            Succession::TakenOver,
            NOW
        ),
        Err(NotSwapped::Conflict {
            slot: slot(2),
            expected: epoch(&old),
            current: epoch(&new),
        })
    );
    for (asked, words) in [
        (
            (slot(1), None),
            "slot 1 is at epoch 106990337, not at no epoch",
        ),
        (
            (slot(9), epoch(&old)),
            "slot 9 is at no epoch, not at epoch",
        ),
    ] {
        let refused = new.swap(&[asked], &member(3), Succession::Handed, NOW);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with(words), "{refused}");
    }
}

#[test]
fn nothing_asked_is_nothing_changed() {
    let table = swap(&RingTable::default(), &[1], 1, Succession::TakenOver);
    assert_eq!(swap(&table, &[], 2, Succession::Handed), table);
}

#[test]
fn the_record_is_the_json_that_the_documentation_shows() {
    let table = swap(&RingTable::default(), &[0], 1, Succession::TakenOver);
    let table = swap(&table, &[0], 2, Succession::Handed);
    let json = String::from_utf8(table.to_json()).unwrap();
    let list = |first: &str, other: &str| {
        let others = vec![other; usize::from(SLOTS) - 1].join(",");
        format!("[{first},{others}]")
    };
    let lists = [
        list("106990338", "0"),
        list("0", "-1"),
        list("106990337", "-1"),
    ];
    let [epochs, owners, inherits] = lists;
    assert_eq!(
        json,
        format!(
            r#"{{"number":2,"members":[{{"name":"chat-2","incarnation":"0000000000000002","url":"http://chat-2:7400","zone":"a"}}],"epochs":{epochs},"owners":{owners},"inherits":{inherits}}}"#
        )
    );
}

#[test]
fn a_record_that_contradicts_itself_is_refused_with_the_place() {
    let listed = |number: u64| MemberRecord::from(&member(number));
    let good = RingRecord {
        number: 1,
        members: vec![listed(1)],
        epochs: vec![5; 1024],
        owners: vec![0; 1024],
        inherits: vec![4; 1024],
        backups: Vec::new(),
        line: Line::NONE,
        lines: Vec::new(),
        reader: 1,
        more: Unknown::new(),
    };
    assert!(RingTable::try_from(good.clone()).is_ok());
    type Wrong = fn(&mut RingRecord);
    let wrongs: [(&str, Wrong); 18] = [
        ("number: 0", |r| r.number = 0),
        ("0000000000000001 is listed twice", |r| {
            r.members.push(r.members[0].clone())
        }),
        ("\"a b\" is no member name", |r| {
            r.members[0].name = "a b".into()
        }),
        ("\"a\" is not http://HOST", |r| {
            r.members[0].url = "a".into()
        }),
        ("is not http://HOST", |r| {
            r.members[0].url = "http://a/b".into()
        }),
        ("\"\" is no zone", |r| {
            r.members[0].zone = Some(String::new())
        }),
        ("epochs: there are 1023", |r| r.epochs.truncate(1023)),
        ("owners: there are 1025", |r| r.owners.push(0)),
        ("inherits: there are 0", |r| r.inherits.clear()),
        ("owners: 1 of slot 7 is not among the 1", |r| {
            r.owners[7] = 1
        }),
        ("owners: -2 of slot 7", |r| r.owners[7] = -2),
        ("slot 7 has no owner", |r| r.owners[7] = -1),
        ("slot 7: -1 is no epoch", |r| r.epochs[7] = -1),
        ("slot 7: epoch 4 cannot inherit from epoch 4", |r| {
            r.epochs[7] = 4
        }),
        ("backups: there are 3", |r| r.backups = vec![-1; 3]),
        ("backups: 1 of slot 0 is not among the 1", |r| {
            r.backups = vec![1; 1024]
        }),
        ("the owner of slot 0 cannot be its backup", |r| {
            r.backups = vec![0; 1024]
        }),
        ("slot 7 has no owner", |r| {
            (r.owners[7], r.epochs[7], r.inherits[7]) = (-1, 0, -1);
            r.backups = vec![-1; 1024];
            r.backups[7] = 0;
        }),
    ];
    for (words, wrong) in wrongs {
        let mut record = good.clone();
        wrong(&mut record);
        let refused = RingTable::try_from(record).unwrap_err().to_string();
        assert!(refused.contains(words), "{words}: {refused}");
    }
}

#[test]
fn json_of_another_form_is_refused() {
    let ring = |extra: &str| format!(r#"{{"number":1,"members":[],"epochs":[]{extra}}}"#);
    for (json, words) in [
        ("{}".to_owned(), "this is no ring: missing field `number`"),
        ("12".to_owned(), "this is no ring: invalid type"),
        (ring(r#","owners":[]"#), "missing field `inherits`"),
        (ring(r#","owners":["a"]"#), "invalid type: string \"a\""),
    ] {
        let refused = RingTable::from_json(json.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(refused.contains(words), "{json}: {refused}");
    }
    let json =
        String::from_utf8(swap(&RingTable::default(), &[0], 1, Succession::Handed).to_json());
    let json = json.unwrap().replace("0000000000000001", "1");
    let refused = RingTable::from_json(json.as_bytes())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("sixteen hexadecimal digits"), "{refused}");
}

/// A swap that a member asks for: slots, owner, how, and whether its table is an old one.
type Asked = (Vec<u16>, u64, bool, bool);

fn asked() -> impl Strategy<Value = Asked> {
    let slots = vec(0..SLOTS, 0..40);
    (slots, 0_u64..6, any::<bool>(), prop::bool::weighted(0.1))
}

proptest! {
    #[test]
    fn no_swap_ever_lowers_an_epoch_or_drops_a_slot(swaps in vec(asked(), 1..30)) {
        let mut table = RingTable::default();
        let mut old = table.clone();
        for (mut slots, owner, handed, from_old) in swaps {
            slots.sort_unstable();
            slots.dedup();
            let how = if handed { Succession::Handed } else { Succession::TakenOver };
            let asked = known(if from_old { &old } else { &table }, &slots);
            let stale = asked != known(&table, &slots);
            let next = table.swap(&asked, &member(owner), how, NOW);
            prop_assert_eq!(next.is_err(), stale);
            let Ok(next) = next else { continue };
            for slot in Slot::all() {
                let (before, after) = (table.config(slot), next.config(slot));
                if slots.contains(&slot.number()) {
                    prop_assert!(after.map(|c| c.epoch()) > before.map(|c| c.epoch()));
                    prop_assert_eq!(next.owner(slot), Some(&member(owner)));
                } else {
                    prop_assert_eq!(after, before);
                }
            }
            prop_assert_eq!(next.number(), table.number() + u64::from(!slots.is_empty()));
            for member in next.members() {
                prop_assert!(next.owned_by(member.incarnation()).next().is_some());
            }
            old = std::mem::replace(&mut table, next);
        }
    }

    #[test]
    fn what_is_written_is_what_is_read(swaps in vec(asked(), 1..30)) {
        let mut table = RingTable::default();
        for (mut slots, owner, handed, _) in swaps {
            slots.push(0);
            slots.sort_unstable();
            slots.dedup();
            let how = if handed { Succession::Handed } else { Succession::TakenOver };
            table = swap(&table, &slots, owner, how);
        }
        prop_assert_eq!(RingTable::from_json(&table.to_json()), Ok(table.clone()));
        let record = RingRecord::from(&table);
        prop_assert_eq!(RingTable::try_from(record), Ok(table));
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(RingTable::from_json(&bytes).is_err());
    }
}

#[test]
fn members_are_listed_by_plain_and_by_encrypted_urls_and_no_others() {
    let listed = |url: &str| RingMember::new("a", Incarnation::new(1), url, None);
    for good in ["http://a:7400", "https://a:7400", "https://[::1]:7400"] {
        assert_eq!(listed(good).unwrap().url(), good);
    }
    for bad in [
        "https://",
        "https://a/b",
        "ftp://a",
        "https:/a",
        "HTTPS://a b",
    ] {
        assert!(listed(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_a_later_release_says_is_kept_and_only_what_it_forbids_is_not_read() {
    let table = swap(&RingTable::default(), &[0], 1, Succession::TakenOver);
    let json: serde_json::Value = serde_json::from_slice(&table.to_json()).unwrap();
    assert!(
        json.get("reader").is_none(),
        "the release before reads no such field"
    );
    let mut later = json;
    later["shadows"] = serde_json::json!([1, 2]);
    later["members"][0]["reads"] = 2.into();
    let read = RingTable::from_json(later.to_string().as_bytes()).unwrap();
    // A member that owns one slot more, or is listed again, loses none of its unknown fields.
    for next in [
        swap(&read, &[1], 2, Succession::TakenOver),
        swap(&read, &[1], 1, Succession::TakenOver),
    ] {
        let written: serde_json::Value = serde_json::from_slice(&next.to_json()).unwrap();
        assert_eq!(written["shadows"], later["shadows"]);
        assert_eq!(written["members"][0], later["members"][0]);
    }
    later["reader"] = 1.into();
    assert!(RingTable::from_json(later.to_string().as_bytes()).is_ok());
    later["reader"] = 3.into();
    let refused = RingTable::from_json(later.to_string().as_bytes());
    assert_eq!(refused, Err(RecordError::TooNew(3)));
}

#[test]
fn backups_are_listed_and_written_and_keep_out_readers_that_know_of_none() {
    let first = swap(&RingTable::default(), &[0, 1], 1, Succession::TakenOver);
    let backed = first
        .swap_backed(
            &known(&first, &[0]),
            &member(1),
            Some(&member(2)),
            Succession::Handed,
            NOW,
        )
        .unwrap();
    let at = |slot| Slot::new(slot).unwrap();
    let backup = |table: &RingTable, slot| table.config(at(slot)).unwrap().backup();
    assert_eq!(backup(&backed, 0), Some(Incarnation::new(2)));
    assert_eq!(backup(&backed, 1), None);
    assert_eq!(backed.members().len(), 2, "a backup is listed");
    let json: serde_json::Value = serde_json::from_slice(&backed.to_json()).unwrap();
    let lists = (&json["reader"], &json["backups"][0], &json["backups"][1]);
    assert_eq!(lists, (&2.into(), &1.into(), &(-1).into()));
    assert_eq!(RingTable::from_json(&backed.to_json()), Ok(backed.clone()));
    // A move by a release that names no backups, and nothing of them is left.
    let moved = swap(&backed, &[0], 3, Succession::Handed);
    assert_eq!(backup(&moved, 0), None);
    let json: serde_json::Value = serde_json::from_slice(&moved.to_json()).unwrap();
    assert_eq!((json.get("reader"), json.get("backups")), (None, None));
    let listed: Vec<&str> = moved.members().iter().map(RingMember::name).collect();
    assert_eq!(listed, [member(1).name(), member(3).name()]);
}

#[test]
fn a_slot_that_is_kept_keeps_its_backup_and_one_that_is_handed_on_is_backed_by_who_had_it() {
    let first = swap(&RingTable::default(), &[0, 1], 1, Succession::TakenOver);
    let (owner, backup, how) = (member(1), member(2), Succession::Handed);
    let backed = first.swap_backed(&known(&first, &[0]), &owner, Some(&backup), how, NOW);
    let backed = backed.unwrap();
    let backups = |table: &RingTable| {
        [0, 1].map(|slot| table.config(Slot::new(slot).unwrap()).unwrap().backup())
    };
    let handed_to = |to| backed.swap_handed(&known(&backed, &[0, 1]), &member(to), NOW);
    let kept = handed_to(1).unwrap();
    assert_eq!(backups(&kept), [Some(Incarnation::new(2)), None]);
    let handed = handed_to(3).unwrap();
    assert_eq!(backups(&handed), [Some(Incarnation::new(1)); 2]);
    let listed: Vec<&str> = handed.members().iter().map(RingMember::name).collect();
    assert_eq!(listed, [member(1).name(), member(3).name()]);
}
