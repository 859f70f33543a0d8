//! The NBD protocol as far as QEMU's client speaks it: fixed newstyle negotiation, then simple replies.
//!
//! Bytes in, values out, and back; nothing here reads a socket or knows a disk. Numbers are big-endian
//! throughout. The document is `doc/proto.md` of the NBD project.
//!
//! ```text
//! server: greeting ─▶ client: flags ─▶ client: option … server: answer … ─▶ GO ─▶ requests and replies
//! ```

use thiserror::Error;

/// Above what QEMU sends in one request (32 MiB).
pub(crate) const MAX_LENGTH: u32 = 32 << 20;
/// Bytes of an option's header: magic, option, length.
pub(crate) const OPTION_HEADER: usize = 16;
/// Bytes of a request's header: magic, flags, type, cookie, offset, length.
pub(crate) const REQUEST_HEADER: usize = 28;

const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943; // "NBDMAGIC"
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054; // "IHAVEOPT"
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 1 << 1;
const CLIENT_FLAGS: u32 = 0b11;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_GO: u32 = 7;

const ANSWER_ACK: u32 = 1;
const ANSWER_INFO: u32 = 3;
const ANSWER_UNSUPPORTED: u32 = (1 << 31) + 1;
const INFO_EXPORT: u16 = 0;

// HAS_FLAGS, SEND_FLUSH, SEND_FUA: a disk with a write cache that can be told to empty it.
const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3;
const COMMAND_FLAG_FUA: u16 = 1;

/// Bytes that are not what the protocol has at this place: the connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ProtocolError {
    /// A header begins with something else.
    #[error("{found:#x} instead of the magic number of {of}")]
    Magic {
        /// Which header it was to be.
        of: &'static str,
        /// What was there.
        found: u64,
    },
    /// Flags or a length that this server does not take.
    #[error("{what} {found:#x} is not supported")]
    Unsupported {
        /// What it is about.
        what: &'static str,
        /// What was asked for.
        found: u64,
    },
}

/// An option that the client sends while it negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negotiation {
    /// Begin: the old way, with an answer that has no frame.
    ExportName,
    /// Begin.
    Go,
    /// Close the connection.
    Abort,
    /// Something that this server has not got; it may be declined.
    Other(u32),
}

/// An option's header; `length` bytes of data follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionHeader {
    /// What is asked for.
    pub(crate) option: Negotiation,
    /// Bytes that follow.
    pub(crate) length: u32,
}

/// What the client asks for once the negotiation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Comes back in the reply.
    pub(crate) cookie: u64,
    /// What to do.
    pub(crate) command: Command,
}

/// The commands of a disk without discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Answer with this range.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// `length` bytes follow the header.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// To stable storage before the reply.
        fua: bool,
    },
    /// Everything written so far to stable storage.
    Flush,
    /// No reply; the connection ends.
    Disconnect,
}

/// What the server says first.
#[must_use]
pub(crate) fn greeting() -> Vec<u8> {
    [
        &GREETING_MAGIC.to_be_bytes()[..],
        &OPTION_MAGIC.to_be_bytes(),
        &(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes(),
    ]
    .concat()
}

/// Reads the client's answer to the greeting.
///
/// # Errors
/// When it does not speak fixed newstyle.
pub(crate) fn decode_client_flags(bytes: [u8; 4]) -> Result<ClientFlags, ProtocolError> {
    let flags = u32::from_be_bytes(bytes);
    if flags & !CLIENT_FLAGS != 0 || flags & u32::from(FIXED_NEWSTYLE) == 0 {
        return Err(ProtocolError::Unsupported {
            what: "the client's set of flags",
            found: flags.into(),
        });
    }
    Ok(ClientFlags {
        no_zeroes: flags & u32::from(NO_ZEROES) != 0,
    })
}

/// What the client wants of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientFlags {
    /// The unframed answer goes without its 124 zeroes.
    pub(crate) no_zeroes: bool,
}

impl OptionHeader {
    /// # Errors
    /// When this is no option.
    pub(crate) fn decode(bytes: &[u8; OPTION_HEADER]) -> Result<Self, ProtocolError> {
        let magic = u64_at(bytes, 0);
        if magic != OPTION_MAGIC {
            return Err(ProtocolError::Magic {
                of: "an option",
                found: magic,
            });
        }
        let length = u32_at(bytes, 12);
        if length > 4096 {
            return Err(ProtocolError::Unsupported {
                what: "an option of this length:",
                found: length.into(),
            });
        }
        let option = match u32_at(bytes, 8) {
            OPTION_EXPORT_NAME => Negotiation::ExportName,
            OPTION_ABORT => Negotiation::Abort,
            OPTION_GO => Negotiation::Go,
            other => Negotiation::Other(other),
        };
        Ok(Self { option, length })
    }
}

impl Negotiation {
    /// What the server answers for a disk of `size` bytes.
    #[must_use]
    pub(crate) fn answer(self, size: u64, flags: ClientFlags) -> Vec<u8> {
        match self {
            Self::ExportName => {
                let mut bytes = [&size.to_be_bytes()[..], &EXPORT_FLAGS.to_be_bytes()].concat();
                if !flags.no_zeroes {
                    bytes.resize(bytes.len() + 124, 0);
                }
                bytes
            }
            Self::Go => {
                let info = [
                    &INFO_EXPORT.to_be_bytes()[..],
                    &size.to_be_bytes(),
                    &EXPORT_FLAGS.to_be_bytes(),
                ]
                .concat();
                [
                    framed(OPTION_GO, ANSWER_INFO, &info),
                    framed(OPTION_GO, ANSWER_ACK, &[]),
                ]
                .concat()
            }
            Self::Abort => framed(OPTION_ABORT, ANSWER_ACK, &[]),
            Self::Other(option) => framed(option, ANSWER_UNSUPPORTED, &[]),
        }
    }
}

impl Request {
    /// # Errors
    /// When this is no request, or one that a server which offered no such thing need not take.
    pub(crate) fn decode(bytes: &[u8; REQUEST_HEADER]) -> Result<Self, ProtocolError> {
        let magic = u32_at(bytes, 0);
        if magic != REQUEST_MAGIC {
            return Err(ProtocolError::Magic {
                of: "a request",
                found: magic.into(),
            });
        }
        let flags = u16_at(bytes, 4);
        let kind = u16_at(bytes, 6);
        let offset = u64_at(bytes, 16);
        let length = u32_at(bytes, 24);
        if flags & !COMMAND_FLAG_FUA != 0 {
            return Err(ProtocolError::Unsupported {
                what: "a request with the flags",
                found: flags.into(),
            });
        }
        if length > MAX_LENGTH {
            return Err(ProtocolError::Unsupported {
                what: "a request of this length:",
                found: length.into(),
            });
        }
        let command = match kind {
            0 => Command::Read { offset, length },
            1 => Command::Write {
                offset,
                length,
                fua: flags & COMMAND_FLAG_FUA != 0,
            },
            2 => Command::Disconnect,
            3 => Command::Flush,
            other => {
                return Err(ProtocolError::Unsupported {
                    what: "the command",
                    found: other.into(),
                });
            }
        };
        Ok(Self {
            cookie: u64_at(bytes, 8),
            command,
        })
    }
}

/// A reply's header; what was read follows it. `error` is 0 or an errno.
#[must_use]
pub(crate) fn reply(cookie: u64, error: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

fn framed(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    [
        &OPTION_REPLY_MAGIC.to_be_bytes()[..],
        &option.to_be_bytes(),
        &kind.to_be_bytes(),
        &u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes(),
        data,
    ]
    .concat()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes[at..at + 2]
        .iter()
        .fold(0, |number, byte| number << 8 | u16::from(*byte))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(flags: u16, kind: u16, length: u32) -> [u8; REQUEST_HEADER] {
        let bytes = [
            &REQUEST_MAGIC.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &77_u64.to_be_bytes(),
            &(5_u64 << 32).to_be_bytes(),
            &length.to_be_bytes(),
        ]
        .concat();
        bytes.try_into().unwrap()
    }

    #[test]
    fn every_command_is_told_apart() {
        let command = |flags, kind, length| {
            Request::decode(&request(flags, kind, length)).map(|request| {
                assert_eq!(request.cookie, 77);
                request.command
            })
        };
        let offset = 5 << 32;
        assert_eq!(
            command(0, 0, 512),
            Ok(Command::Read {
                offset,
                length: 512
            })
        );
        let write = |fua| Command::Write {
            offset,
            length: 4096,
            fua,
        };
        assert_eq!(command(0, 1, 4096), Ok(write(false)));
        assert_eq!(command(1, 1, 4096), Ok(write(true)));
        assert_eq!(command(0, 2, 0), Ok(Command::Disconnect));
        assert_eq!(command(0, 3, 0), Ok(Command::Flush));
        assert!(command(0, 4, 0).is_err(), "discard was not offered");
        assert!(command(2, 1, 4096).is_err(), "nor any other flag");
        assert!(command(0, 0, MAX_LENGTH + 1).is_err());
    }

    #[test]
    fn noise_is_no_request_and_no_option() {
        let mut bytes = request(0, 0, 1);
        bytes[0] ^= 1;
        assert!(matches!(
            Request::decode(&bytes),
            Err(ProtocolError::Magic { .. })
        ));
        assert!(matches!(
            OptionHeader::decode(&[0; OPTION_HEADER]),
            Err(ProtocolError::Magic { .. })
        ));
        assert!(decode_client_flags([0, 0, 0, 0]).is_err());
    }

    #[test]
    fn go_is_answered_with_the_size_and_then_an_end() {
        let answer = Negotiation::Go.answer(1 << 29, ClientFlags { no_zeroes: true });
        let (info, ack) = answer.split_at(20 + 12);
        assert_eq!(u64_at(info, 0), OPTION_REPLY_MAGIC);
        assert_eq!(u32_at(info, 12), ANSWER_INFO);
        assert_eq!(u64_at(info, 22), 1 << 29);
        assert_eq!(u32_at(ack, 12), ANSWER_ACK);
        assert_eq!(u32_at(ack, 16), 0, "an end has no data");
    }

    #[test]
    fn what_the_server_has_not_got_is_declined_in_a_frame() {
        let answer = Negotiation::Other(8).answer(1, ClientFlags { no_zeroes: true });
        assert_eq!(u32_at(&answer, 8), 8);
        assert_eq!(u32_at(&answer, 12), ANSWER_UNSUPPORTED);
    }
}
