//! What a small request costs that a member forwards: in frames, which reads and acknowledgements share, and as a
//! request of its own, as `HEAD` goes. Beside it, the same at the owner.
//!
//! Client and both members are in this process: what a request costs is what all of them spend on it.

use std::{error::Error, fmt::Write as _};

use futures::future::try_join_all;
use readstates::server::Server;
use readstates_ring::Slot;
use reqwest::{Client, RequestBuilder};
use tokio::runtime::Runtime;

use super::{forwarding::spent_micros, median, world};

const AT_ONCE: [usize; 3] = [1, 8, 64];
/// Requests of a round, over all that are under way.
const REQUESTS: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Which goes alone.
    Head,
    Get,
    Ack,
}

const WHATS: [What; 3] = [What::Head, What::Get, What::Ack];

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Head => "read, as a request of its own",
            Self::Get => "read, in frames",
            Self::Ack => "acknowledgement, in frames",
        }
    }

    fn request(self, client: &Client, url: &str, message: u64) -> RequestBuilder {
        match self {
            Self::Head => client.head(url),
            Self::Get => client.get(url),
            Self::Ack => {
                let body = format!("{{\"message_id\":\"{message}\"}}");
                let request = client.post(format!("{url}/ack"));
                request
                    .header("content-type", "application/json")
                    .body(body)
            }
        }
    }
}

/// A table.
pub(crate) fn measure(runtime: &Runtime, rounds: usize) -> Result<String, Box<dyn Error>> {
    let members = runtime.block_on(world::members(2))?;
    let mut out = String::from(
        "Microseconds of processor for a request, of client and members together: at the owner, and at the other \
         member, which forwards it. Medians of the rounds, which take turns.\n\n\
         | request | under way | at the owner | forwarded | difference |\n|---|---|--:|--:|--:|\n",
    );
    for at_once in AT_ONCE {
        let mut seen = WHATS.map(|_| [Vec::new(), Vec::new()]);
        for _ in 0..rounds {
            for (what, costs) in WHATS.iter().zip(&mut seen) {
                for (asked, costs) in [1, 0].into_iter().zip(costs) {
                    costs.push(runtime.block_on(round(&members, asked, *what, at_once))?);
                }
            }
        }
        for (what, costs) in WHATS.iter().zip(seen) {
            let (name, [there, forwarded]) = (what.name(), costs.map(median));
            let more = forwarded - there;
            writeln!(
                out,
                "| {name} | {at_once} | {there:.1} | {forwarded:.1} | {more:.1} |"
            )?;
        }
    }
    // They end with the process.
    std::mem::forget(members);
    Ok(out)
}

/// Microseconds of processor for each request about users of the second member.
async fn round(
    members: &[Server],
    asked: usize,
    what: What,
    at_once: usize,
) -> Result<f64, Box<dyn Error>> {
    let owner = members[1].ownership();
    let routes = owner.routes();
    let owned = |user: &u64| {
        let place = routes.owner(Slot::of_user(*user));
        place.is_some_and(|place| routes.peers()[place].incarnation == owner.me().incarnation())
    };
    let users: Vec<u64> = (1..).filter(owned).take(at_once).collect();
    let client = Client::builder().no_proxy().tls_certs_only([]).build()?;
    let address = members[asked].http_address;
    let run = async |requests: usize| {
        let workers = users.iter().map(|user| {
            let url = format!("http://{address}/v1/users/{user}/read-states/10");
            let client = client.clone();
            async move {
                let worker = send_all(client, url, what, requests / at_once);
                tokio::spawn(worker)
                    .await
                    .map_err(|error| error.to_string())?
            }
        });
        try_join_all(workers).await
    };
    // The connections are made, and the users are there.
    run(at_once * 10).await?;
    let spent = spent_micros();
    let done: usize = run(REQUESTS).await?.into_iter().sum();
    Ok((spent_micros() - spent) / done as f64)
}

async fn send_all(
    client: Client,
    url: String,
    what: What,
    requests: usize,
) -> Result<usize, String> {
    for message in 1..=requests as u64 {
        let answer = what.request(&client, &url, message).send().await;
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        answer.bytes().await.map_err(|error| error.to_string())?;
        // Before the first acknowledgement there is nothing to read.
        if status != 200 && (what == What::Ack || status != 404) {
            return Err(format!("{what:?} was answered {status}"));
        }
    }
    Ok(requests)
}
