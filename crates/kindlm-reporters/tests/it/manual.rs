//! Tests of pages of Markdown on a terminal.

use kindlm_reporters::{Style, write_manual};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

const PAGE: &str = "\
# `passRateMin`

Sets the lowest share of test cases that must pass, *from 0 to 1*; see [gates](../docs.md#gates) and [the
standard](https://example.com/standard).

```yaml gate
passRateMin: 0.75
nested:
  text: a line of code that is longer than a narrow terminal, so that it needs a second line
```

## Options

| Key | Type | Meaning |
|---|---|---|
| `value` | text | The text to search for. 文字の幅は二つの列です。 |
| `caseSensitive` | true or false | Tells apart `A` and `a`, in every script that has upper and lower case. |

1. first
2. second, with a text that is long enough to need a second line on a narrow terminal
   - inner `code`
3. third

- bullet

<!-- left out -->
Last paragraph: \u{1b}[31mred.
";

fn shown(markdown: &str, width: usize, color: bool) -> String {
    let mut text = String::new();
    write_manual(markdown, &Style { width, color, ..Style::default() }, &mut text).unwrap();
    text
}

#[test]
fn shows_every_kind_of_block() {
    insta::assert_snapshot!("manual_80", shown(PAGE, 80, false));
    insta::assert_snapshot!("manual_40", shown(PAGE, 40, false));
}

#[test]
fn colours_are_the_only_difference() {
    let coloured = shown(PAGE, 80, true);
    assert!(coloured.contains("\u{1b}[1mOptions\u{1b}[0m"), "{coloured}");
    assert!(coloured.contains("\u{1b}[36mcaseSensitive\u{1b}[0m"), "{coloured}");
    assert!(!shown(PAGE, 80, false).contains('\u{1b}'));
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_page(text in "[-a-z `|*_#\\[\\]()0-9.文\n]{0,300}", width in 40_usize..120) {
        for line in shown(&text, width, false).lines() {
            prop_assert!(line.width() <= width, "{line}");
            prop_assert_eq!(line.trim_end(), line);
        }
    }
}
