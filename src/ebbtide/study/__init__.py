"""One study: its definition, its state, its log, and the engine that works out the next query."""
