//! What tasks acknowledge with.

use std::{error::Error, net::SocketAddr, sync::Arc};

use readstates_api::{AckRequest, Id};
use readstates_bench::resp::SCRIPT;
use readstates_client::{Client, Coalescing, Config};
use redis::{Script, aio::MultiplexedConnection};

/// How operations of many tasks reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A request for each operation.
    Single,
    /// Frames that operations share.
    Coalesced,
    /// EVALSHA on a Redis server, a connection for each task.
    RedisSingle,
    /// EVALSHA on a Redis server, one connection that pipelines what all tasks ask.
    RedisShared,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [
        Self::Single,
        Self::Coalesced,
        Self::RedisSingle,
        Self::RedisShared,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Single => "ours, single requests",
            Self::Coalesced => "ours, coalesced",
            Self::RedisSingle => "Redis, a connection for each task",
            Self::RedisShared => "Redis, one multiplexed connection",
        }
    }
}

/// Makes a [`Caller`] for each task.
pub(crate) enum Callers {
    Single(Client),
    Coalesced(Coalescing),
    RedisSingle(redis::Client, Arc<Script>),
    RedisShared(MultiplexedConnection, Arc<Script>),
}

/// What one task acknowledges with.
#[derive(Clone)]
pub(crate) enum Caller {
    Single(Client),
    Coalesced(Coalescing),
    Redis(MultiplexedConnection, Arc<Script>),
}

impl Callers {
    /// `redis`: where a Redis server listens.
    pub(crate) async fn of(
        way: Way,
        urls: &[String],
        redis: SocketAddr,
    ) -> Result<Self, Box<dyn Error>> {
        let client = || Ok::<_, Box<dyn Error>>(Client::start(Config::new(urls)?)?);
        let script = || Arc::new(Script::new(SCRIPT));
        let redis = || redis::Client::open(format!("redis://{redis}"));
        Ok(match way {
            Way::Single => {
                let client = client()?;
                client.ring_after(0).await;
                Self::Single(client)
            }
            Way::Coalesced => {
                let client = client()?;
                client.ring_after(0).await;
                Self::Coalesced(client.coalescing())
            }
            Way::RedisSingle => Self::RedisSingle(redis()?, script()),
            Way::RedisShared => {
                let connection = redis()?.get_multiplexed_async_connection().await?;
                Self::RedisShared(connection, script())
            }
        })
    }

    pub(crate) async fn one(&self) -> Result<Caller, Box<dyn Error>> {
        Ok(match self {
            Self::Single(client) => Caller::Single(client.clone()),
            Self::Coalesced(states) => Caller::Coalesced(states.clone()),
            Self::RedisSingle(client, script) => {
                let connection = client.get_multiplexed_async_connection().await?;
                Caller::Redis(connection, Arc::clone(script))
            }
            Self::RedisShared(connection, script) => {
                Caller::Redis(connection.clone(), Arc::clone(script))
            }
        })
    }
}

impl Caller {
    pub(crate) async fn ack(
        &mut self,
        user: Id,
        channel: Id,
        message: Id,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        match self {
            Self::Coalesced(states) => {
                states.ack(user, channel, message).await?;
            }
            Self::Single(client) => {
                let request = AckRequest {
                    message_id: message,
                    manual: false,
                    mention_count: None,
                    flags: None,
                    last_viewed: None,
                };
                client.ack(user, channel, &request).await?;
            }
            Self::Redis(connection, script) => {
                let mut call = script.key(user.get());
                call.arg("ack").arg(channel.get()).arg(message.get()).arg(0);
                let applied: u8 = call.invoke_async(connection).await?;
                if applied != 1 {
                    return Err("a newer message was not acknowledged".into());
                }
            }
        }
        Ok(())
    }
}
