//! The colours, light and dark, as one table. The page and the charts take them from here.

use std::fmt::Write;

use crate::story::state::State;

/// A colour by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// Its name; `--name` in style sheets.
    pub name: &'static str,
    /// On light ground, `#rrggbb`.
    pub light: &'static str,
    /// On dark ground, `#rrggbb`.
    pub dark: &'static str,
    /// What it is for.
    pub role: Role,
}

/// What a colour is for; a test holds the contrast that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// What everything stands on.
    Ground,
    /// Text: contrast 4.5 to every ground.
    Text,
    /// Lines and shapes that say something: contrast 3 to every ground.
    Shape,
    /// Decoration.
    Quiet,
}

/// All colours.
pub const COLOURS: &[Colour] = &[
    colour("ground", "#fbfaf7", "#14171b", Role::Ground),
    colour("panel", "#ffffff", "#1b2026", Role::Ground),
    colour("sunk", "#f3f1ec", "#10131a", Role::Ground),
    colour("ink", "#1d2227", "#e9e7e2", Role::Text),
    colour("muted", "#59626d", "#a5adb8", Role::Text),
    colour("line", "#e2ded5", "#313842", Role::Quiet),
    colour("edge", "#878175", "#727d8a", Role::Shape),
    colour("client", "#2c5aa8", "#8fb4f6", Role::Text),
    colour("good", "#1b6e34", "#74d08c", Role::Text),
    colour("bad", "#b0261c", "#ff948a", Role::Text),
    colour("running", "#0b7266", "#45bfae", Role::Shape),
    colour("fail-point", "#7449a1", "#bd9cea", Role::Shape),
    colour("session", "#6c7681", "#97a1ac", Role::Shape),
    colour("ticket", "#7d6200", "#d8b73f", Role::Shape),
    colour("lock", "#7d6200", "#d8b73f", Role::Shape),
    colour("conflict", "#a32f6c", "#ef8cbd", Role::Shape),
    colour("engine-stall", "#ad5108", "#f0994f", Role::Shape),
    colour("stall", "#ad5108", "#f0994f", Role::Shape),
    colour("received", "#6c7681", "#97a1ac", Role::Shape),
];

const fn colour(name: &'static str, light: &'static str, dark: &'static str, role: Role) -> Colour {
    Colour { name, light, dark, role }
}

/// The declarations of all colours, light or dark.
pub fn declarations(is_dark: bool) -> String {
    let mut css = String::new();
    for colour in COLOURS {
        // Writing to a string cannot fail.
        let _ = write!(css, "--{}:{};", colour.name, if is_dark { colour.dark } else { colour.light });
    }
    css
}

/// How the shape of a state is filled. No two states of one colour have the same, so that none is told by its colour alone.
pub fn fill(state: State) -> Fill {
    use backfire_model::event::Wait;
    match state {
        State::Received => Fill::Empty,
        State::Running => Fill::Solid,
        State::Waits(Wait::FailPoint) => Fill::Dots,
        State::Waits(Wait::Session) => Fill::Empty,
        State::Waits(Wait::Ticket) => Fill::Vertical,
        State::Waits(Wait::Lock) => Fill::Horizontal,
        State::Waits(Wait::WriteConflict) => Fill::Crossed,
        State::Waits(Wait::EngineStall) => Fill::Rising,
        State::Waits(Wait::InterruptibleStall) => Fill::Falling,
    }
}

/// The pattern of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// An outline.
    Empty,
    /// The plain colour.
    Solid,
    /// Dots.
    Dots,
    /// Upright lines.
    Vertical,
    /// Level lines.
    Horizontal,
    /// Both diagonals.
    Crossed,
    /// Lines that rise to the right.
    Rising,
    /// Lines that fall to the right.
    Falling,
}

impl Fill {
    /// The lines of one tile of 6 by 6, as an SVG path to be stroked; empty for a fill without a pattern.
    pub fn path(self) -> &'static str {
        match self {
            Fill::Empty | Fill::Solid => "",
            Fill::Dots => "M1.5 2h1M4.5 5h1",
            Fill::Vertical => "M1.5 0v6M4.5 0v6",
            Fill::Horizontal => "M0 1.5h6M0 4.5h6",
            Fill::Crossed => "M-1 1l2-2M0 6l6-6M5 7l2-2M-1 5l2 2M0 0l6 6M5-1l2 2",
            Fill::Rising => "M-1 1l2-2M0 6l6-6M5 7l2-2",
            Fill::Falling => "M-1 5l2 2M0 0l6 6M5-1l2 2",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(hex: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        (one / other).max(other / one)
    }

    #[test]
    fn every_colour_has_the_contrast_that_its_role_needs() {
        for ground in COLOURS.iter().filter(|colour| colour.role == Role::Ground) {
            for colour in COLOURS {
                let needs = match colour.role {
                    Role::Text => 4.5,
                    Role::Shape => 3.0,
                    Role::Ground | Role::Quiet => continue,
                };
                let (light, dark) = (contrast(ground.light, colour.light), contrast(ground.dark, colour.dark));
                assert!(light >= needs && dark >= needs, "{} on {}: {light:.2}, {dark:.2}", colour.name, ground.name);
            }
        }
    }

    #[test]
    fn states_of_one_colour_differ_in_their_pattern() {
        let colour = |state: State| COLOURS.iter().find(|colour| colour.name == state.name()).unwrap();
        for (at, one) in State::ALL.into_iter().enumerate() {
            for other in &State::ALL[at + 1..] {
                let differ = fill(one) != fill(*other);
                // Received and waiting for a session differ in their line: one is solid, one is dashed.
                let is_outline = fill(one) == Fill::Empty;
                assert!(differ || is_outline || colour(one).light != colour(*other).light, "{one:?}, {other:?}");
            }
        }
    }
}
