//! Foreign rows: where they are, and which of their parts is which part of a read state. Pure.

mod columns;
mod field;
mod place;
mod template;

pub(crate) use self::{
    columns::Places,
    field::{FIELDS, Field},
};
pub use self::{
    columns::{Columns, NoColumn},
    place::{Place, RedisAddress, TableName},
    template::Template,
};
