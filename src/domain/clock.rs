//! The wall clock, in one place. Deadlines never use it: see [`super::deadline`].

use jiff::Timestamp;

/// The present moment. Serialises as an RFC 3339 UTC string.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The present moment in milliseconds since the Unix epoch, which is how the store keeps times.
pub fn now_ms() -> i64 {
    now().as_millisecond()
}
