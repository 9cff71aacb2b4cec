pub fn chain(error: &dyn std::error::Error) -> String { error.to_string() }
