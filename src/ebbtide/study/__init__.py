"""One study: its definition, its state, its log, and the engine that computes the next query."""
