//! The table *predicted / measured / difference*.

use comfy_table::{CellAlignment, Table, presets};

use backfire_model::run::Run;

/// The table as text, one row per count. The other numbers follow where there is anything to say of them.
pub fn render(run: &Run) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "predicted", "measured", "difference"]);
    for (one, other) in run.predicted.0.rows().into_iter().zip(run.measured.0.rows()) {
        table.add_row(row(one.1, Some(one.2), other.2));
    }
    for (one, other) in run.predicted.1.rows().into_iter().zip(run.measured.1.rows()) {
        let measured = other.2.unwrap_or(0);
        if one.2.unwrap_or(0) != 0 || measured != 0 {
            table.add_row(row(one.1, one.2, measured));
        }
    }
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn row(label: &str, predicted: Option<u64>, measured: u64) -> [String; 4] {
    let difference = match predicted {
        None => "any".to_owned(),
        Some(predicted) if predicted == measured => "-".to_owned(),
        Some(predicted) => format!("{:+}", i128::from(measured) - i128::from(predicted)),
    };
    let predicted = predicted.map_or("any".to_owned(), |predicted| predicted.to_string());
    [label.to_owned(), predicted, measured.to_string(), difference]
}

#[cfg(test)]
mod tests {
    use super::*;
    use backfire_model::counts::{Counts, Extras};

    #[test]
    fn rows_show_what_differs() {
        let counts = Counts {
            executions: 4,
            sends: 8,
            resends: 4,
            copies: 4,
            overlapping_copies_max: 4,
            waiting_resends: 4,
            documents: 8,
        };
        let extras = Extras { answered_from_history: Some(4), late_copies: None, ..Extras::default() };
        let measured =
            (Counts { sends: 7, ..counts }, Extras { late_copies: Some(2), ended_at_deadline: Some(0), ..extras });
        let run = Run {
            scenario: "x".into(),
            scale: 1.0,
            namespace: None,
            predicted: (counts, extras),
            measured,
            events: Vec::new(),
        };
        let text = render(&run);
        let row = |label: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(label))
                .unwrap_or_else(|| panic!("no {label} in\n{text}"));
            line.trim_start().trim_start_matches(label).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("sends"), ["8", "7", "-1"]);
        assert_eq!(row("executions"), ["4", "4", "-"]);
        assert_eq!(row("answered from history"), ["4", "4", "-"]);
        assert_eq!(row("older copies that wrote last"), ["any", "2", "any"]);
        assert!(!text.contains("ended at their deadline"));
    }
}
