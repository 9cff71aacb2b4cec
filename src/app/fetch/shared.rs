//! Equal loads under way at the same time are one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::answer::EngineUsed;
use super::load::{LoadError, Loaded, Loader};
use super::plan::LoadPlan;
use crate::browser::BrowserError;
use crate::domain::deadline::Deadline;

type Load = BoxFuture<'static, Result<Arc<Loaded>, LoadError>>;

/// The loads under way. Only their callers keep them going: the last one to leave ends a load.
pub struct SharedLoads {
    loader: Arc<Loader>,
    under_way: Mutex<HashMap<String, WeakShared<Load>>>,
}

impl SharedLoads {
    pub fn new(loader: Arc<Loader>) -> Self {
        Self { loader, under_way: Mutex::new(HashMap::new()) }
    }

    /// The engine that loads, by its own word.
    pub fn engine(&self) -> EngineUsed {
        match self.loader.engine.identity() {
            Some(identity) => EngineUsed { name: identity.name.to_owned(), version: identity.version },
            None => EngineUsed { name: "lightpanda".to_owned(), version: "unknown".to_owned() },
        }
    }

    /// Loads the page, or joins a load of the same page.
    ///
    /// A load has the deadline of the caller who began it. One who joined and has more time begins anew when that
    /// deadline comes first.
    pub async fn load(&self, plan: &LoadPlan, deadline: Deadline) -> Result<Arc<Loaded>, LoadError> {
        loop {
            let (load, is_ours) = self.join_or_begin(plan, deadline);
            let late = BrowserError::DeadlineExceeded { step: "loading the page" };
            let loaded = match tokio::time::timeout_at(deadline.at().into(), load).await {
                Ok(loaded) => loaded,
                Err(_) => return Err(late.into()),
            };
            match loaded {
                Err(LoadError::Browser(BrowserError::DeadlineExceeded { .. }))
                    if !is_ours && !deadline.has_passed() => {}
                loaded => return loaded,
            }
        }
    }

    fn join_or_begin(&self, plan: &LoadPlan, deadline: Deadline) -> (Shared<Load>, bool) {
        let key = plan.key();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // A load that is done counts as over: its page may have changed.
        under_way.retain(|_, load| load.upgrade().is_some_and(|load| load.peek().is_none()));
        if let Some(load) = under_way.get(&key).and_then(WeakShared::upgrade) {
            return (load, false);
        }
        let (loader, plan) = (Arc::clone(&self.loader), plan.clone());
        let load: Load = async move { loader.load(&plan, deadline).await.map(Arc::new) }.boxed();
        let load = load.shared();
        if let Some(weak) = load.downgrade() {
            under_way.insert(key, weak);
        }
        (load, true)
    }
}
