//! Asks a Lightpanda binary for its version.

use std::path::Path;
use std::time::Duration;

use super::child;
use super::error::InstallError;

/// A version is a short word; anything longer is not one.
const VERSION_CHARS: usize = 100;

/// How much of the binary's own words an error quotes.
const QUOTED_CHARS: usize = 500;

/// What `BINARY version` prints on its first line, such as `1.0.2`.
///
/// # Errors
/// `CannotStart` if the system cannot run it, `VersionFailed` if it ends badly or prints no version,
/// `VersionTimedOut` after `limit`.
pub async fn version_of(binary: &Path, limit: Duration) -> Result<String, InstallError> {
    let path = || binary.to_owned();
    let mut command = child::command(binary);
    command.arg("version").env("LIGHTPANDA_DISABLE_TELEMETRY", "true");
    let output = tokio::time::timeout(limit, child::run(command))
        .await
        .map_err(|_| InstallError::VersionTimedOut { path: path(), limit })?
        .map_err(|source| InstallError::CannotStart { path: path(), source })?;
    let version = output.stdout.lines().next().unwrap_or_default().trim();
    let plausible = !version.is_empty() && version.chars().count() <= VERSION_CHARS;
    if output.status.success() && plausible {
        return Ok(version.to_owned());
    }
    let stderr = last_chars(&output.stderr, QUOTED_CHARS).to_owned();
    Err(InstallError::VersionFailed { path: path(), status: output.status.to_string(), stderr })
}

/// The last `count` characters of a text.
pub(super) fn last_chars(text: &str, count: usize) -> &str {
    let start = text.char_indices().rev().nth(count.saturating_sub(1)).map_or(0, |(index, _)| index);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::install::tests::support::script;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn the_first_line_is_the_version() {
        let directory = tempfile::tempdir().unwrap();
        let binary = script(directory.path(), "test \"$1\" = version && echo 1.0.2 && echo more");
        assert_eq!(version_of(&binary, LIMIT).await.unwrap(), "1.0.2");
    }

    #[tokio::test]
    async fn a_binary_that_fails_is_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let binary = script(directory.path(), "echo \"libc.so.6: version 'GLIBC_2.38' not found\" >&2; exit 1");
        let error = version_of(&binary, LIMIT).await.unwrap_err();
        assert!(matches!(error, InstallError::VersionFailed { .. }));
        assert!(error.to_string().contains("GLIBC_2.38' not found"), "{error}");
    }

    #[tokio::test]
    async fn a_binary_that_prints_no_version_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for body in ["true", "echo; echo", "head -c 200 /dev/zero | tr '\\0' x"] {
            let error = version_of(&script(directory.path(), body), LIMIT).await.unwrap_err();
            assert!(matches!(error, InstallError::VersionFailed { .. }), "{body}: {error}");
        }
    }

    #[tokio::test]
    async fn a_binary_that_hangs_is_ended_at_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let binary = script(directory.path(), "sleep 60");
        let error = version_of(&binary, Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, InstallError::VersionTimedOut { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_file_that_is_no_program_cannot_start() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("plain");
        std::fs::write(&file, "text").unwrap();
        let error = version_of(&file, LIMIT).await.unwrap_err();
        assert!(matches!(error, InstallError::CannotStart { .. }), "{error}");
    }

    #[test]
    fn the_end_of_a_text_is_cut_on_a_character() {
        assert_eq!(last_chars("aéü", 2), "éü");
        assert_eq!(last_chars("aéü", 9), "aéü");
        assert_eq!(last_chars("", 2), "");
    }
}
