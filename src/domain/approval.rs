//! What a URL must pass before an engine may open it.
