//! What a program says, in one line that fits into a condition.

/// The last line that tells something: not blank, and no frame of a Java or Python stack.
pub fn last_telling_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty() && !is_frame(line))
}

/// The first telling line, cut where it is too long for a condition.
pub(crate) fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !is_frame(line));
    let line = first.unwrap_or("it said nothing");
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    let cut: String = line.chars().take(LONGEST).collect();
    format!("{cut}…")
}

fn is_frame(line: &str) -> bool {
    // `at org.example.Class.method(Class.java:87)`, also of a native method or an unknown source.
    let java = line
        .strip_prefix("at ")
        .and_then(|frame| frame.split_once('('))
        .is_some_and(|(method, file)| !method.contains(' ') && file.ends_with(')'));
    // `... 12 more`
    let more = line
        .strip_prefix("... ")
        .is_some_and(|rest| rest.ends_with(" more") || rest.ends_with(" common frames omitted"));
    let python = line.starts_with("File \"") && line.contains(", line ");
    java || more || python || line == "-- StackTrace --"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_complaint_is_one_line_that_fits() {
        let stack = "\n  \tat org.x.Y.z(Y.java:1)\nEndpoint not alive: /10.0.0.3\njava.lang.X\n";
        assert_eq!(one_line(stack), "Endpoint not alive: /10.0.0.3");
        assert_eq!(one_line(" \n"), "it said nothing");
        let ranges = "(1,2], ".repeat(100);
        assert_eq!(one_line(&ranges).chars().count(), 301);
    }

    #[test]
    fn a_stack_is_not_what_a_program_said() {
        let nodetool = "nodetool: Failed to connect to '127.0.0.1:7199'\n-- StackTrace --\n\
                        java.net.ConnectException: Connection refused\n\
                        \tat java.base/sun.nio.ch.Net.pollConnect(Native Method)\n\
                        \tat org.apache.cassandra.tools.NodeTool.main(NodeTool.java:87)\n\
                        \t... 12 more\n";
        let last = last_telling_line(nodetool);
        assert_eq!(last, Some("java.net.ConnectException: Connection refused"));
        assert_eq!(
            last_telling_line("starting\nno host answers\n\n"),
            Some("no host answers")
        );
        assert_eq!(last_telling_line(" \n"), None);
        assert_eq!(last_telling_line(""), None);
    }
}
