//! Blocking work (hashing, unpacking, fsync) that notices when nobody waits for it any more.

use tokio_util::sync::CancellationToken;

use super::error::InstallError;

/// Runs `work` on the blocking pool. Its token is cancelled when this future is dropped: work that
/// takes longer than some milliseconds looks at it between steps.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&CancellationToken) -> Result<T, InstallError> + Send + 'static,
) -> Result<T, InstallError> {
    let cancelled = CancellationToken::new();
    let _guard = cancelled.clone().drop_guard();
    match tokio::task::spawn_blocking(move || work(&cancelled)).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and never started the work.
            Err(_) => Err(InstallError::Cancelled),
        },
    }
}
