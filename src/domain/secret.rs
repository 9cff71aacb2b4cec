//! A value that must not be shown.

use std::fmt;

/// A secret. `Debug` masks it and there is no `Display`: whoever needs it calls [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What stands in the place of a secret wherever one would be shown.
pub const MASK: &str = "********";

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_in_debug_output() {
        let secret = Secret::new("correct horse battery staple");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "******** Some(\n    ********,\n)");
        assert_eq!(secret.expose(), "correct horse battery staple");
    }
}
