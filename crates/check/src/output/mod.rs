//! A report as text for people, as JSON, as SARIF and as annotations of GitHub.

pub mod github;
pub mod json;
pub mod sarif;
pub mod text;
