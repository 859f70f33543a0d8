//! The source that the flags name, and how it is read.

use std::fs;

use tokio::sync::mpsc;

use super::{
    ImportError, Progression,
    buffered::Excerpt,
    cassandra::CqlSource,
    checkpoint::ImportState,
    file::FileSource,
    redis::{RedisSource, Values},
};
use crate::{
    config::{FileFormat, ImportArgs},
    rows::{Field, Place, Template},
};

/// One source of rows.
pub(super) enum Source {
    File(FileSource),
    Cql(CqlSource),
    Redis(RedisSource),
}

impl Source {
    /// What the flags say; nothing is opened.
    pub(super) fn of(args: &ImportArgs) -> Result<Self, ImportError> {
        match &args.from {
            Place::File(file) => file_source(args, Some(file.clone())).map(Self::File),
            Place::Stdin => file_source(args, None).map(Self::File),
            Place::Cql(hosts) => {
                let Some(table) = &args.table else {
                    return Err(flags("--table: give the table to read"));
                };
                Ok(Self::Cql(CqlSource {
                    target: table.target(hosts).map_err(ImportError::Flags)?,
                    table: table.table.clone(),
                    columns: args.columns.clone(),
                    login: args.cql.login()?,
                }))
            }
            Place::Redis(address) => {
                let keys = args
                    .pattern
                    .clone()
                    .filter(|pattern| pattern.has(Field::User));
                let keys = keys.ok_or_else(|| {
                    flags("--pattern: give the form of keys with {user}, such as user:{user}:reads")
                })?;
                Ok(Self::Redis(RedisSource {
                    address: address.clone(),
                    user: args.redis_user.clone(),
                    password: password(args)?,
                    keys,
                    values: values(&args.value)?,
                    columns: args.columns.clone(),
                }))
            }
        }
    }

    /// How rows are read, for the checkpoint: what changes which rows there are, and what they say.
    pub(super) fn rows(&self) -> String {
        match self {
            Self::File(FileSource {
                file: _,
                format,
                delimiter,
                no_header,
                columns,
            }) => format!(
                "{format:?}, delimiter {:?}, header {}, columns {columns}",
                char::from(*delimiter),
                !no_header
            ),
            Self::Cql(CqlSource {
                target: _,
                table,
                columns,
                login: _,
            }) => format!("table {table}, columns {columns}"),
            Self::Redis(RedisSource {
                address: _,
                user: _,
                password: _,
                keys,
                values,
                columns,
            }) => format!("keys {keys}, values {values:?}, columns {columns}"),
        }
    }

    /// Begins to read windows of so many rows, from where the import was left.
    pub(super) async fn start(
        self,
        before: Option<&ImportState>,
        most: usize,
    ) -> Result<(mpsc::Receiver<Progression>, Option<Excerpt>), ImportError> {
        let position = before.and_then(|before| before.position.as_ref());
        match self {
            Self::File(source) => {
                let known = before.and_then(|before| before.about.beginning.as_ref());
                let (reader, beginning) = source.open(known, position)?;
                Ok((reader.start(most), Some(beginning)))
            }
            Self::Cql(source) => Ok((source.start(position, most).await?, None)),
            Self::Redis(source) => Ok((source.start(position, most).await?, None)),
        }
    }
}

fn flags(text: &str) -> ImportError {
    ImportError::Flags(text.to_owned())
}

fn file_source(
    args: &ImportArgs,
    file: Option<std::path::PathBuf>,
) -> Result<FileSource, ImportError> {
    let by_name = || file.as_deref().and_then(FileFormat::of_file);
    let Some(format) = args.format.or_else(by_name) else {
        return Err(flags(
            "--format: give csv, tsv or ndjson; the name of the input does not say which it is",
        ));
    };
    Ok(FileSource {
        file,
        format,
        delimiter: args.delimiter,
        no_header: args.no_header,
        columns: args.columns.clone(),
    })
}

fn values(text: &str) -> Result<Values, ImportError> {
    if text == "json" {
        return Ok(Values::Json);
    }
    let template: Template = text
        .parse()
        .map_err(|why| ImportError::Flags(format!("--value: {why}")))?;
    if !template.has(Field::Message) {
        return Err(flags(
            "--value: give the form of values with {message}, or json",
        ));
    }
    Ok(Values::Template(template))
}

fn password(args: &ImportArgs) -> Result<Option<String>, ImportError> {
    let Some(file) = &args.redis_password_file else {
        return Ok(None);
    };
    let read = fs::read_to_string(file).map_err(|source| ImportError::Password {
        file: file.clone(),
        source,
    })?;
    Ok(Some(read.trim_end_matches(['\r', '\n']).to_owned()))
}
