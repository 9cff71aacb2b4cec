//! The two bearer tokens, and the brake on wrong ones.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// Who calls, by the token that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Drives browsers.
    Agent,
    /// Does that, answers approvals and administers.
    Approver,
}

impl Caller {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Approver => "approver",
        }
    }
}

/// The tokens that are accepted. Only their digests are kept, so a comparison takes as long for every input of the
/// same length and tells nothing about the token's own length.
#[derive(Clone)]
pub struct Tokens {
    agent: [u8; 32],
    approver: [u8; 32],
}

impl Tokens {
    pub fn new(agent: &str, approver: &str) -> Self {
        Self { agent: digest(agent), approver: digest(approver) }
    }

    /// Whose token it is. Both are always compared.
    pub fn caller(&self, token: &str) -> Option<Caller> {
        let token = digest(token);
        let (agent, approver): (Choice, Choice) = (self.agent.ct_eq(&token), self.approver.ct_eq(&token));
        match (bool::from(approver), bool::from(agent)) {
            (true, _) => Some(Caller::Approver),
            (false, true) => Some(Caller::Agent),
            (false, false) => None,
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

/// This many wrong tokens are answered at once; a person who mistypes stays below it.
const BURST: u32 = 10;

/// One more is answered after each such pause.
const REFILL: Duration = Duration::from_secs(1);

/// Counts wrong tokens. The right one is never held up: 128 random bits cannot be guessed at any rate, so the brake
/// only bounds what a guesser costs, and locking everyone out would be a gift to the guesser.
#[derive(Debug)]
pub struct WrongTokens {
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    left: u32,
    filled_at: Instant,
}

impl Default for WrongTokens {
    fn default() -> Self {
        Self { bucket: Mutex::new(Bucket { left: BURST, filled_at: Instant::now() }) }
    }
}

impl WrongTokens {
    /// Notes one more. `Err` is how long the caller has to wait for an answer.
    pub fn note(&self) -> Result<(), Duration> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now())
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let refills = now.saturating_duration_since(self.filled_at).as_secs() / REFILL.as_secs();
        if refills > 0 {
            self.left = BURST.min(self.left.saturating_add(u32::try_from(refills).unwrap_or(BURST)));
            self.filled_at = now;
        }
        if self.left == 0 {
            return Err(REFILL.saturating_sub(now.saturating_duration_since(self.filled_at)));
        }
        self.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_names_its_caller() {
        let tokens = Tokens::new("agent-token", "approver-token");
        assert_eq!(tokens.caller("agent-token"), Some(Caller::Agent));
        assert_eq!(tokens.caller("approver-token"), Some(Caller::Approver));
        for wrong in ["", "agent-toke", "agent-token ", "AGENT-TOKEN", "approver-token\0"] {
            assert_eq!(tokens.caller(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_token_is_never_printed() {
        assert_eq!(format!("{:?}", Tokens::new("agent-token", "approver-token")), "Tokens");
    }

    #[test]
    fn wrong_tokens_are_held_up_after_a_burst_and_let_in_again_one_a_second() {
        let start = Instant::now();
        let mut bucket = Bucket { left: BURST, filled_at: start };
        for _ in 0..BURST {
            assert_eq!(bucket.take(start), Ok(()));
        }
        assert_eq!(bucket.take(start + Duration::from_millis(400)), Err(Duration::from_millis(600)));
        assert_eq!(bucket.take(start + Duration::from_secs(1)), Ok(()));
        assert!(bucket.take(start + Duration::from_secs(1)).is_err());
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| bucket.take(later).is_ok()).count(), BURST as usize);
    }
}
