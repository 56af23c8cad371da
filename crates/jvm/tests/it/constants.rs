//! Constants, arithmetic and settings from configuration.

use crate::describe::check;
