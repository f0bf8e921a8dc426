//! fake-llm.
