//! The reference documentation of the options, from their rows.

use std::fmt::Write;

use super::options::{Effect, JavaSupport, OPTIONS, OptionSpec};

/// The options as Markdown: a table for each [`Effect`], in the order of [`OPTIONS`].
pub fn reference_markdown() -> String {
    let mut effects: Vec<Effect> = OPTIONS.iter().map(|spec| spec.effect).collect();
    effects.dedup();
    let mut text = String::from(
        "# Options of a connection string\n\n\
         Names are not case-sensitive. Defaults are those of the Java driver 5.4.\n",
    );
    for effect in effects {
        let _ =
            write!(text, "\n## {effect}\n\n| option | values | default | what it does |\n| --- | --- | --- | --- |\n");
        for spec in OPTIONS.iter().filter(|spec| spec.effect == effect) {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                spec.name,
                cell(&spec.kind.to_string()),
                cell(&spec.default_text()),
                cell(&description(spec))
            );
        }
    }
    text
}

fn description(spec: &OptionSpec) -> String {
    let mut text = spec.doc.to_owned();
    for alias in spec.aliases {
        let kind = if alias.deprecated { "Old name" } else { "Also" };
        let _ = write!(text, " {kind}: `{}`.", alias.name);
    }
    if let Some(by) = spec.deprecated_by {
        let _ = write!(text, " Deprecated in favour of `{by}`.");
    }
    for (what, others) in [("Not together with", spec.excludes), ("Needs", spec.needs)] {
        if !others.is_empty() {
            let names: Vec<String> = others.iter().map(|other| format!("`{other}`")).collect();
            let _ = write!(text, " {what}: {}.", names.join(", "));
        }
    }
    if spec.srv_only {
        text += " Only with `mongodb+srv://`.";
    }
    match spec.java {
        JavaSupport::Yes => {}
        JavaSupport::Since(version) => {
            let _ = write!(text, " Java driver: {version} and later.");
        }
        JavaSupport::No => text += " Not in the Java driver.",
    }
    text
}

/// A `|` would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_row_of_four_cells() {
        let text = reference_markdown();
        for spec in OPTIONS {
            assert_eq!(text.matches(&format!("| `{}` |", spec.name)).count(), 1, "{}", spec.name);
        }
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), OPTIONS.len());
        assert!(rows.iter().all(|row| row.matches(" | ").count() == 3), "{rows:#?}");
    }

    #[test]
    fn a_row_says_all_that_its_option_has() {
        let text = reference_markdown();
        let row = |name: &str| text.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        for part in ["0 (waits for ever)", "a whole number of milliseconds, 0 or more", "in favour of `timeoutMS`"] {
            assert!(row("socketTimeoutMS").contains(part), "{part}");
        }
        assert!(row("tls").contains("Also: `ssl`."));
        assert!(row("wTimeoutMS").contains("Old name: `wtimeout`."));
        assert!(row("srvMaxHosts").contains("Only with `mongodb+srv://`."));
        assert!(row("maxAdaptiveRetries").contains("Java driver: 5.12 and later."));
    }
}
