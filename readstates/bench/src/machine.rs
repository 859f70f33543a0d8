//! What a report says about the machine and the hour it was made in: `machine.md`.

/// Its text: a heading, then a list. The first item is the date and the commit, the second the machine; a part that was
/// measured again has an item of its own, `PART: date, commit`.
#[derive(Debug, Clone, Default)]
pub struct Machine(pub String);

impl Machine {
    /// For below the title of a part's plot: when it was measured, of which commit, and where.
    #[must_use]
    pub fn line(&self, part: &str) -> String {
        let mut items = self.items();
        let again = items.find_map(|item| item.strip_prefix(part)?.strip_prefix(": "));
        let when = again.or_else(|| self.items().next());
        let all = when.into_iter().chain(self.hardware());
        all.collect::<Vec<_>>().join("; ")
    }

    /// Why the two reports cannot be compared: measured on another machine, or with other sizes.
    #[must_use]
    pub fn unlike(&self, old: &Self) -> Vec<String> {
        let machine = |it: &Self| it.hardware().unwrap_or("not told").to_owned();
        let sizes = |it: &Self| match it.items().any(|item| item.starts_with("quick: ")) {
            true => "quick".to_owned(),
            false => "whole".to_owned(),
        };
        [
            ("machine", machine(old), machine(self)),
            ("sizes", sizes(old), sizes(self)),
        ]
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(what, old, new)| format!("{what}: {old} then, {new} now"))
        .collect()
    }

    fn items(&self) -> impl Iterator<Item = &str> {
        self.0.lines().filter_map(|line| line.strip_prefix("- "))
    }

    /// Processors, memory, kernel.
    fn hardware(&self) -> Option<&str> {
        self.items().nth(1)
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
    #[test]
    fn reports_of_two_machines_or_of_other_sizes_are_unlike() {
        let report = |machine: &str, rest: &str| {
            Machine(format!(
                "# Measured\n\n- Monday\n- {machine}\n{rest}\n## Flat\n\n- no head: quick: \n"
            ))
        };
        let (whole, quick) = (report("Xeon", ""), report("Xeon", "- quick: few states\n"));
        assert_eq!(whole.unlike(&whole), Vec::<String>::new());
        assert_eq!(quick.unlike(&quick), Vec::<String>::new());
        assert_eq!(quick.unlike(&whole), ["sizes: whole then, quick now"]);
        assert_eq!(
            quick.unlike(&report("EPYC", "")),
            [
                "machine: EPYC then, Xeon now",
                "sizes: whole then, quick now"
            ]
        );
        assert_eq!(
            whole.unlike(&Machine::default()),
            ["machine: not told then, Xeon now"]
        );
    }
}
