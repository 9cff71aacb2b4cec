//! Ctrl-C and a polite kill end a command early but in order.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::CliError;

/// By which signal a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    Interrupted,
    Terminated,
}

impl Interrupt {
    /// 128 + the number of the signal, as shells tell it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

/// Runs `work` until it ends, or drops it at the first SIGINT or SIGTERM.
pub async fn unless_interrupted<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let watch = |kind| -> Result<Signal, CliError> { signal(kind).map_err(no_signals) };
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    tokio::select! {
        outcome = work => outcome,
        _ = interrupt.recv() => Err(CliError::Interrupted(Interrupt::Interrupted)),
        _ = terminate.recv() => Err(CliError::Interrupted(Interrupt::Terminated)),
    }
}

fn no_signals(source: io::Error) -> CliError {
    CliError::Signals { source }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::sys::signal::{Signal as Number, raise};

    use super::*;

    #[tokio::test]
    async fn a_signal_drops_the_work_and_gives_the_shell_s_exit_code() {
        for (number, exit_code) in [(Number::SIGINT, 130), (Number::SIGTERM, 143)] {
            let outcome = unless_interrupted(async {
                raise(number).unwrap();
                tokio::time::sleep(Duration::from_secs(30)).await;
                Ok(())
            });
            let error = tokio::time::timeout(Duration::from_secs(10), outcome).await.unwrap().unwrap_err();
            assert_eq!(error.exit_code(), exit_code);
        }
    }

    #[tokio::test]
    async fn undisturbed_work_ends_as_it_ends() {
        assert_eq!(unless_interrupted(async { Ok(7) }).await.unwrap(), 7);
    }
}
