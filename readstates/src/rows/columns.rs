//! Which column of a foreign row is which part of a read state.

use std::{fmt, str::FromStr};

use super::field::{FIELDS, Field};

/// The names of columns, as far as they were given: `user=uid,channel=cid`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    given: [Option<String>; FIELDS],
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, name) = pair
                .split_once('=')
                .filter(|(_, name)| !name.is_empty())
                .ok_or_else(|| format!("{pair:?} is not FIELD=NAME"))?;
            let field = Field::of_key(key).ok_or_else(|| {
                let keys = Field::ALL.map(Field::key).join(", ");
                format!("{key:?} is no field; they are {keys}")
            })?;
            if columns.given[field.place()].replace(name.into()).is_some() {
                return Err(format!("{key} is there twice"));
            }
        }
        Ok(columns)
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for field in Field::ALL {
            if let Some(name) = &self.given[field.place()] {
                let comma = if first { "" } else { "," };
                write!(f, "{comma}{}={name}", field.key())?;
                first = false;
            }
        }
        Ok(())
    }
}

/// Where the fields are among columns of these names; `None`: there is no such column.
pub(crate) type Places = [Option<usize>; FIELDS];

/// A column that is asked for or required, and is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no column {name:?} for the {key}; name it with --columns {key}=NAME (there are: {})",
    there.join(", ")
)]
pub struct NoColumn {
    key: &'static str,
    name: String,
    there: Vec<String>,
}

impl Columns {
    /// The name of a field's column.
    pub(crate) fn name(&self, field: Field) -> &str {
        let given = self.given[field.place()].as_deref();
        given.unwrap_or(field.exported_as())
    }

    /// The name that was given for a field.
    pub(crate) fn given(&self, field: Field) -> Option<&str> {
        self.given[field.place()].as_deref()
    }

    /// Finds the fields among columns. One that was named, or is required, must be there.
    pub(crate) fn among(&self, there: &[&str]) -> Result<Places, NoColumn> {
        let mut places = [None; FIELDS];
        for field in Field::ALL {
            let name = self.name(field);
            let found = there.iter().position(|column| *column == name);
            if found.is_none() && (field.is_required() || self.given(field).is_some()) {
                return Err(self.missing(field, there));
            }
            places[field.place()] = found;
        }
        Ok(places)
    }

    /// Finds the fields among columns without names, by their numbers from 1.
    pub(crate) fn by_number(&self, count: usize) -> Result<Places, NoColumn> {
        let numbers: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
        let there: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let mut places = [None; FIELDS];
        for field in Field::ALL {
            let given = self.given(field);
            let found = given.and_then(|given| there.iter().position(|number| *number == given));
            if found.is_none() && (field.is_required() || given.is_some()) {
                return Err(self.missing(field, &there));
            }
            places[field.place()] = found;
        }
        Ok(places)
    }

    /// The refusal for a field whose column is not among these.
    pub(crate) fn missing(&self, field: Field, there: &[&str]) -> NoColumn {
        NoColumn {
            key: field.key(),
            name: self.name(field).to_owned(),
            there: there.iter().map(|&name| name.to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str) -> Columns {
        text.parse().unwrap()
    }

    #[test]
    fn columns_have_the_names_of_an_export_where_no_other_is_given() {
        let there = ["channel_id", "uid", "last_message_id", "flags", "more"];
        let places = columns("user=uid").among(&there).unwrap();
        let expected = [Some(1), Some(0), Some(2), None, None, Some(3), None, None];
        assert_eq!(places, expected);
        assert_eq!(columns("pin=p,user=uid").to_string(), "user=uid,pin=p");
        assert_eq!(columns("").to_string(), "");
    }

    #[test]
    fn a_column_that_is_required_or_named_must_be_there() {
        let there = ["user_id", "channel_id"];
        let refusal = columns("").among(&there).unwrap_err().to_string();
        assert!(
            refusal.contains("\"last_message_id\" for the message")
                && refusal.contains("--columns message=NAME")
                && refusal.contains("there are: user_id, channel_id"),
            "{refusal}"
        );
        let there = ["user_id", "channel_id", "last_message_id"];
        let refusal = columns("mentions=m").among(&there).unwrap_err();
        assert!(refusal.to_string().contains("\"m\" for the mentions"));
    }

    #[test]
    fn without_names_columns_are_numbers() {
        let given = columns("user=2,channel=1,message=4");
        let places = given.by_number(4).unwrap();
        assert_eq!(&places[..3], [Some(1), Some(0), Some(3)]);
        assert_eq!(places[3..], [None; 5]);
        assert!(given.by_number(3).is_err());
        assert!(columns("user=0,channel=1,message=2").by_number(9).is_err());
        assert!(columns("").by_number(9).is_err());
    }

    #[test]
    fn what_is_no_mapping_is_refused_with_the_part_at_fault() {
        for (text, part) in [
            ("user", "\"user\" is not FIELD=NAME"),
            ("user=", "\"user=\" is not"),
            ("name=x", "\"name\" is no field; they are user, channel"),
            ("user=a,user=b", "user is there twice"),
        ] {
            let refusal = text.parse::<Columns>().unwrap_err();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
