//! Builds the use case of scripts.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::engine_binary;
use crate::app::scripts::Scripts;
use crate::browser::lightpanda::LightpandaFlags;
use crate::browser::script::ScriptRunner;
use crate::config::Config;
use crate::store::data_dir::DataDir;

/// What a script's process may need beside its JavaScript heap: the DOM of its pages, and the engine itself.
const BESIDE_THE_HEAP_BYTES: u64 = 256 * 1024 * 1024;

/// Scripts as configured: off, or run by this runner.
pub fn scripts(
    config: &Config,
    data_dir: &DataDir,
    owner: String,
    flags: LightpandaFlags,
    tracker: &TaskTracker,
    end: &CancellationToken,
) -> Scripts {
    let (lightpanda, bin, run) = (config.lightpanda.clone(), data_dir.bin(), data_dir.run());
    let max_resident_bytes = flags.page_heap_mb.saturating_mul(1024 * 1024).saturating_add(BESIDE_THE_HEAP_BYTES);
    let runner = config.scripts.enabled.then(|| {
        let launcher = move |time| Ok(flags.script(engine_binary(&lightpanda, &bin)?, &run, &owner, time));
        ScriptRunner::new(Box::new(launcher), max_resident_bytes, tracker.clone(), end.clone())
    });
    Scripts::new(runner, config.scripts.max_running)
}
