//! What a report says about the machine and the hour it was made in: `machine.md`.

/// Its text: a heading, then a list. The first item is the date and the commit, the second the machine; a part that was
/// measured again has an item of its own, `PART: date, commit`.
#[derive(Debug, Clone, Default)]
pub struct Machine(pub String);

impl Machine {
    /// For below the title of a part's plot: when it was measured, of which commit, and where.
    #[must_use]
    pub fn line(&self, part: &str) -> String {
        let items = || self.0.lines().filter_map(|line| line.strip_prefix("- "));
        let again = items().find_map(|item| item.strip_prefix(part)?.strip_prefix(": "));
        let when = again.or_else(|| items().next());
        let all = when.into_iter().chain(items().nth(1));
        all.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_measured_again_has_its_own_hour() {
        let machine = Machine(
            "# Measured\n\n- Monday, commit 1\n- two processors\n- compilers\n- flat: Tuesday, commit 2\n".into(),
        );
        assert_eq!(machine.line("memory"), "Monday, commit 1; two processors");
        assert_eq!(machine.line("flat"), "Tuesday, commit 2; two processors");
        assert_eq!(Machine::default().line("flat"), "");
    }
}
