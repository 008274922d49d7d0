//! Selects the parts that fit into a comment. The least important parts are dropped.

/// The maximum number of characters in a GitHub comment.
pub(super) const MOST: usize = 65_536;

/// Returns the length of a text for GitHub, in UTF-16 code units.
///
/// GitHub does not document its counting. Characters outside the basic plane count as two, which is the worst case.
pub(super) fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Returns the first lines that fit into `room` characters.
///
/// Each line counts with its line break.
pub(super) fn first_that_fit(lines: impl IntoIterator<Item = String>, room: usize) -> Vec<String> {
    let mut left = room;
    let mut kept = Vec::new();
    for line in lines {
        let Some(rest) = left.checked_sub(length(&line) + 1) else { break };
        left = rest;
        kept.push(line);
    }
    kept
}

/// The texts of a case for three levels of detail.
#[derive(Debug)]
pub(super) struct Block {
    /// The list item with the name of the case.
    pub(super) name: String,
    /// The summary with the name of the case, and the failures. The text begins a `<details>` element.
    pub(super) reasons: String,
    /// The evidence, the request, the tool calls, the output, and the command that runs the case again.
    pub(super) exchange: String,
}

impl Block {
    /// The end of the `<details>` element.
    pub(super) const END: &str = "\n</details>\n";
}

/// The number of cases that fit at each level of detail.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fitting {
    /// The number of cases, from the first, that are shown with their evidence and outputs.
    pub(super) exchanges: usize,
    /// The number of cases, from the first, that are shown with their failures.
    pub(super) reasons: usize,
    /// The number of cases, from the first, that are shown by name.
    pub(super) names: usize,
}

/// Fits cases into `room` characters.
///
/// The exchanges of the last cases are dropped first, then their failures, then their names.
pub(super) fn fit(blocks: &[Block], room: usize) -> Fitting {
    let mut left = room;
    let mut take = |cost: usize| left.checked_sub(cost).map(|rest| left = rest).is_some();
    let names = blocks.iter().take_while(|it| take(length(&it.name) + 1)).count();
    let candidates = || blocks.iter().take(names);
    let reasons = candidates()
        // The folded case replaces the list item, so only the difference counts.
        .take_while(|it| {
            let folded = length(&it.reasons) + length(Block::END);
            take(folded.saturating_sub(length(&it.name) + 1))
        })
        .count();
    let exchanges = candidates().take(reasons).take_while(|it| take(length(&it.exchange))).count();
    Fitting { exchanges, reasons, names }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: usize, reasons: usize, exchange: usize) -> Block {
        let text = |length| "x".repeat(length);
        let reasons = reasons - length(Block::END);
        Block { name: text(name), reasons: text(reasons), exchange: text(exchange) }
    }

    #[test]
    fn exchanges_are_dropped_before_reasons_and_names() {
        let blocks = [block(9, 50, 100), block(9, 50, 100), block(9, 50, 100)];
        for (room, expected) in [
            (450, (3, 3, 3)),
            (449, (2, 3, 3)),
            (150, (0, 3, 3)),
            (149, (0, 2, 3)),
            (30, (0, 0, 3)),
            (29, (0, 0, 2)),
            (0, (0, 0, 0)),
        ] {
            let it = fit(&blocks, room);
            assert_eq!((it.exchanges, it.reasons, it.names), expected, "{room}");
        }
    }

    #[test]
    fn characters_outside_the_basic_plane_count_as_two() {
        assert_eq!(["a", "é", "漢", "🚀"].map(length), [1, 1, 1, 2]);
        assert_eq!(first_that_fit(["ab", "cd", "e"].map(str::to_owned), 6), ["ab", "cd"]);
    }
}
