//! stub
use url::Url;
#[derive(Debug, Clone)]
pub struct Cleared(pub Url);
impl Cleared { pub fn url(&self) -> &Url { &self.0 } }
