//! QEMU's machine protocol: plugs disks in and pulls them out while the guest runs.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::qemu::Drive;

/// The emulator answers at once, or is busy with a disk that hangs.
const LIMIT: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(crate) struct Qmp {
    lines: BufReader<UnixStream>,
}

impl Qmp {
    pub(crate) fn connected(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(LIMIT))?;
        let mut qmp = Self {
            lines: BufReader::new(stream),
        };
        qmp.line().context("failed to read QEMU's greeting")?;
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    pub(crate) fn plug(&mut self, drive: &Drive) -> Result<()> {
        let backend = json!({
            "driver": "nbd",
            "node-name": drive.name,
            "server": {"type": "unix", "path": drive.socket},
        });
        self.execute("blockdev-add", &backend)?;
        let device: serde_json::Map<_, _> = drive
            .properties()
            .into_iter()
            .map(|(key, value)| (key.to_owned(), property(value)))
            .collect();
        self.execute("device_add", &Value::Object(device))
    }

    /// Pulls a disk; the guest has noticed when this returns.
    pub(crate) fn unplug(&mut self, name: &str) -> Result<()> {
        let device = format!("device-{name}");
        self.execute("device_del", &json!({"id": device}))?;
        loop {
            let event = self
                .line()
                .with_context(|| format!("{name} is still plugged in"))?;
            if event["event"] == "DEVICE_DELETED" && event["data"]["device"] == device.as_str() {
                break;
            }
        }
        self.execute("blockdev-del", &json!({"node-name": name}))
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<()> {
        let mut line = json!({"execute": command, "arguments": arguments}).to_string();
        line.push('\n');
        self.lines
            .get_mut()
            .write_all(line.as_bytes())
            .with_context(|| format!("failed to send {command} to QEMU"))?;
        loop {
            let answer = self
                .line()
                .with_context(|| format!("failed to run {command}"))?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refused {command}: {error}");
            }
            // Events come in between.
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("QEMU is gone");
        }
        Ok(serde_json::from_str(&line)?)
    }
}

/// Numbers are numbers in JSON, where the command line has words only.
fn property(value: String) -> Value {
    value
        .parse::<u64>()
        .map_or(Value::String(value), Value::from)
}
