//! Charts of letters: a number over time in one line, and bars.

/// From nothing to full.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line of `width` letters, each as high as the greatest value of its part. Only 0 is empty.
pub fn line(values: &[u64], width: usize) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    let width = width.min(values.len());
    (0..width)
        .map(|column| {
            let (from, to) = (column * values.len() / width, (column + 1) * values.len() / width);
            let value = values[from..to.max(from + 1).min(values.len())].iter().copied().max().unwrap_or(0);
            LEVELS[level(value, most)]
        })
        .collect()
}

fn level(value: u64, most: u64) -> usize {
    if value == 0 || most == 0 {
        return 0;
    }
    let steps = (LEVELS.len() - 1) as u128;
    ((u128::from(value) * steps).div_ceil(u128::from(most)) as usize).clamp(1, LEVELS.len() - 1)
}

/// A bar of at most `width` letters for `value` of `most`.
pub fn bar(value: u64, most: u64, width: usize) -> String {
    if value == 0 || most == 0 {
        return String::new();
    }
    let length = (u128::from(value) * width as u128).div_ceil(u128::from(most)) as usize;
    "█".repeat(length.clamp(1, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_peaks_and_what_is_not_nothing() {
        assert_eq!(line(&[0, 1, 4, 8, 0], 5), " ▁▄█ ");
        assert_eq!(line(&[0, 0, 9, 0], 2), " █");
        assert_eq!(line(&[1, 1_000_000], 2), "▁█");
        assert_eq!((line(&[], 9), line(&[0, 0], 9)), (String::new(), "  ".to_owned()));
    }

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(
            (bar(0, 10, 4), bar(1, 1000, 4), bar(5, 10, 4), bar(10, 10, 4)),
            (String::new(), "█".into(), "██".into(), "████".into())
        );
    }
}
