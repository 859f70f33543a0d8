use super::*;
use crate::report::tests::robbed;

#[test]
fn much_that_was_stolen_is_a_warning_and_little_is_none() {
    let warned = |millis| {
        let warnings = warnings(&robbed(millis), 1);
        warnings.iter().any(|it| it.contains("the hypervisor kept"))
    };
    assert!(warned(MUCH_STOLEN_MILLIS + 10.0));
    assert!(!warned(MUCH_STOLEN_MILLIS));
}
