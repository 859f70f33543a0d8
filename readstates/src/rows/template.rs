//! Texts with named places in them, such as `user:{user}:read`: what is in the places of a given text.

use std::{fmt, str::FromStr};

use super::field::{FIELDS, Field};

/// A text with places for fields. Between two places there is some text, so that it is read in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Before the first place.
    start: String,
    /// Each place, and what follows it.
    places: Vec<(Field, String)>,
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (start, mut rest) = match text.split_once('{') {
            Some((start, rest)) => (start, Some(rest)),
            None => (text, None),
        };
        let mut template = Self {
            start: start.to_owned(),
            places: Vec::new(),
        };
        while let Some(text) = rest {
            let (key, after) = text
                .split_once('}')
                .ok_or_else(|| format!("{{{text} has no closing brace"))?;
            let field = Field::of_key(key).ok_or_else(|| {
                let keys = Field::ALL.map(Field::key).join("}, {");
                format!("{{{key}}} is no field; they are {{{keys}}}")
            })?;
            if template.has(field) {
                return Err(format!("{{{key}}} is there twice"));
            }
            let (literal, next) = match after.split_once('{') {
                Some((literal, next)) => (literal, Some(next)),
                None => (after, None),
            };
            if literal.is_empty() && next.is_some() {
                return Err(format!("there must be some text after {{{key}}}"));
            }
            template.places.push((field, literal.to_owned()));
            rest = next;
        }
        Ok(template)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.start)?;
        for (field, literal) in &self.places {
            write!(f, "{{{}}}{literal}", field.key())?;
        }
        Ok(())
    }
}

impl Template {
    /// Whether there is a place for a field.
    pub(crate) fn has(&self, field: Field) -> bool {
        self.places.iter().any(|(place, _)| *place == field)
    }

    /// As a pattern of Redis, which matches every text that this one does.
    pub(crate) fn glob(&self) -> String {
        let mut glob = escaped(&self.start);
        for (_, literal) in &self.places {
            glob.push('*');
            glob += &escaped(literal);
        }
        glob
    }

    /// What is in the places of a text; `None`: it is not of this form.
    pub(crate) fn read<'t>(&self, text: &'t str) -> Option<[Option<&'t str>; FIELDS]> {
        let mut found = [None; FIELDS];
        let mut rest = text.strip_prefix(self.start.as_str())?;
        for (index, (field, literal)) in self.places.iter().enumerate() {
            let value = if index + 1 == self.places.len() {
                let value = rest.strip_suffix(literal.as_str())?;
                rest = "";
                value
            } else {
                let (value, after) = rest.split_once(literal.as_str())?;
                rest = after;
                value
            };
            found[field.place()] = Some(value);
        }
        rest.is_empty().then_some(found)
    }
}

fn escaped(literal: &str) -> String {
    let mut escaped = String::with_capacity(literal.len());
    for character in literal.chars() {
        if "*?[]\\^".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'t>(template: &str, text: &'t str) -> Option<Vec<(&'static str, &'t str)>> {
        let template: Template = template.parse().unwrap();
        let found = template.read(text)?;
        let of = |field: Field| Some((field.key(), found[field.place()]?));
        Some(Field::ALL.into_iter().filter_map(of).collect())
    }

    #[test]
    fn a_text_is_read_by_its_places() {
        let user = Some(vec![("user", "42")]);
        assert_eq!(read("user:{user}", "user:42"), user);
        assert_eq!(read("u:{user}:read", "u:42:read"), user);
        assert_eq!(read("{user}", "42"), user);
        for other in ["u:42", "u:42:write", "v:42:read", ""] {
            assert_eq!(read("u:{user}:read", other), None, "{other}");
        }
        assert_eq!(
            read("{message}:{mentions}", "7:3"),
            Some(vec![("message", "7"), ("mentions", "3")])
        );
        // What follows the last place is looked for at the end.
        assert_eq!(
            read("{message}:{mentions}", "7:3:1"),
            Some(vec![("message", "7"), ("mentions", "3:1")])
        );
        assert_eq!(read("{message}:{mentions}", "7"), None);
        assert_eq!(read("fixed", "fixed"), Some(vec![]));
        assert_eq!(read("fixed", "fixed2"), None);
    }

    #[test]
    fn a_pattern_matches_nothing_by_what_is_written_out() {
        let template: Template = "a*[{user}]?".parse().unwrap();
        assert_eq!(template.glob(), "a\\*\\[*\\]\\?");
        assert_eq!(template.to_string(), "a*[{user}]?");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for (text, words) in [
            ("{user", "no closing brace"),
            ("{name}", "{name} is no field; they are {user}, {channel}"),
            ("{user}:{user}", "{user} is there twice"),
            ("{message}{mentions}", "some text after {message}"),
        ] {
            let refusal = text.parse::<Template>().unwrap_err();
            assert!(refusal.contains(words), "{text}: {refusal}");
        }
    }
}
