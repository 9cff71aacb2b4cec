//! Identifiers. One that exists is well formed, so a malformed id never reaches the store or the disk.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The text is not an id that this service could have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of this service")]
pub struct NotAnId;

macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u128);

        impl $name {
            pub fn random() -> Self {
                Self(rand::random())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                number(text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// Names one artifact: 128 random bits as 32 lower-case hexadecimal digits.
    ArtifactId;
    /// Names one session, in the same form.
    SessionId;
}

/// The 128 bits that an id is made of.
fn number(text: &str) -> Result<u128, NotAnId> {
    let ours = text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !ours {
        return Err(NotAnId);
    }
    u128::from_str_radix(text, 16).map_err(|_| NotAnId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_itself() {
        for _ in 0..1000 {
            let id = ArtifactId::random();
            assert_eq!(id.to_string().parse(), Ok(id));
            let id = SessionId::random();
            assert_eq!(serde_json::from_value::<SessionId>(serde_json::to_value(id).unwrap()).unwrap(), id);
        }
        assert_eq!("0".repeat(32).parse::<ArtifactId>().unwrap().to_string(), "0".repeat(32));
    }

    #[test]
    fn nothing_else_is_an_id() {
        let long = "a".repeat(4096);
        for bad in ["", "..", "../../etc/passwd", "%2e%2e", "+0000000000000000000000000000000", long.as_str()] {
            assert_eq!(bad.parse::<ArtifactId>(), Err(NotAnId), "{bad}");
        }
        assert!("A".repeat(32).parse::<ArtifactId>().is_err(), "upper case is another spelling of the same id");
        assert!("é".repeat(16).parse::<ArtifactId>().is_err());
    }
}
