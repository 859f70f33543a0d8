use super::*;

#[test]
fn a_part_is_a_set_of_replicas_in_any_order() {
    assert_eq!(
        part_of([1, 2, 3].into_iter()),
        part_of([3, 1, 2].into_iter())
    );
    // All sets of three of nine nodes are spread over most of the numbers.
    let mut parts = BTreeSet::new();
    for (a, b, c) in (0_u128..9 * 9 * 9).map(|all| (all / 81, all / 9 % 9, all % 9)) {
        if a < b && b < c {
            parts.insert(part_of([a << 70 | 1, b << 70 | 1, c << 70 | 1].into_iter()));
        }
    }
    assert!(parts.len() > 35, "84 sets in {} parts", parts.len());
}

#[test]
fn of_several_data_centres_one_has_to_be_named() {
    let names = several(["west", "east", "west"].into_iter()).expect("two of them");
    let text = ConnectError::SeveralDatacenters { names }.to_string();
    assert!(
        text.contains("(east, west)") && text.contains("--cql-local-dc"),
        "{text}"
    );
    assert_eq!(several(["west", "west"].into_iter()), None);
    assert_eq!(several([].into_iter()), None, "nodes that do not say");
}
