//! Keeps processes of this machine apart: connections to an address go on to another, every byte after half a round trip.

use std::{io, net::SocketAddr, thread, time::Duration};

use clap::Parser;
use readstates_bench::distance::{measured, relay};

/// A distance between processes of one machine, until this process ends. Prints what a round trip takes in truth.
#[derive(Debug, Parser)]
struct Flags {
    /// Where to listen, and where connections go on to.
    #[arg(long, required = true, value_name = "LISTEN=TO", value_parser = pair)]
    relay: Vec<(SocketAddr, SocketAddr)>,

    /// What a byte takes there and back.
    #[arg(long, default_value = "500us", value_name = "DURATION", value_parser = humantime::parse_duration)]
    round_trip: Duration,
}

fn pair(text: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let address = |text: &str| {
        let address = text.parse();
        address.map_err(|error| format!("{text:?}: {error}; write 127.0.0.1:7503=127.0.0.1:7403"))
    };
    let (listen, to) = text.split_once('=').ok_or("write LISTEN=TO")?;
    Ok((address(listen)?, address(to)?))
}

fn main() -> io::Result<()> {
    let Flags {
        relay: pairs,
        round_trip,
    } = Flags::parse();
    let [median, most] = measured(round_trip)?;
    for (listen, to) in pairs {
        relay(listen, to, round_trip)?;
    }
    println!(
        "{:.2} ms there and back by the median, {:.2} ms by the 99th percentile",
        median.as_secs_f64() * 1e3,
        most.as_secs_f64() * 1e3
    );
    loop {
        thread::park();
    }
}
