//! Tests on a real cluster that the environment names: one program, since linking a dozen takes longer than most of them.

mod autoscaling;
mod backups;
mod callers;
mod chaos;
mod copies;
mod database;
mod day_two;
mod disk_node;
mod growth;
mod installation;
mod ipv6;
mod migrate;
mod platform;
mod refusals;
mod releases;
mod removal;
mod repairs;
mod resilience;
mod security;
mod tls;
mod traffic;
mod uninstall;
mod upgrade;
mod zones;
