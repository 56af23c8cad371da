//! See the room's documentation.
