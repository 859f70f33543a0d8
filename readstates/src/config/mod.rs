//! The command line and the environment, and what is made of them: values that need no more checks.

mod cli;
mod limits;
mod serve;

pub use cli::{Cli, Command, SchemaArgs, ServeArgs};
pub use limits::Limits;
pub use serve::{ConfigError, RingConfig, RingFlag, ServeConfig, StoreConfig};
