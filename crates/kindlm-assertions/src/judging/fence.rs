//! Fences around text that is data: nothing in the text can pretend to end it.

/// The text between two lines that carry a mark which does not occur in it.
///
/// The mark is derived from the text, so equal texts give equal questions.
pub(crate) fn fenced(name: &str, text: &str) -> String {
    let mark = mark(text);
    format!("BEGIN {name} {mark}\n{text}\nEND {name} {mark}")
}

fn mark(text: &str) -> String {
    let mut hash = fnv1a(FNV_OFFSET, text.as_bytes());
    loop {
        let mark = format!("{hash:016x}");
        if !text.contains(&mark) {
            return mark;
        }
        hash = fnv1a(hash, mark.as_bytes());
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The 64-bit FNV-1a hash: the same on every machine and in every version, unlike the standard library's.
fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_mark_depends_on_the_text_alone() {
        assert_eq!(
            fenced("output", "a"),
            "BEGIN output af63dc4c8601ec8c\na\nEND output af63dc4c8601ec8c"
        );
        assert_eq!(mark("a"), mark("a"));
        assert_ne!(mark("a"), mark("b"));
    }

    proptest! {
        #[test]
        fn the_mark_never_occurs_in_the_text(text in ".{0,200}") {
            prop_assert!(!text.contains(&mark(&text)));
            prop_assert_eq!(fenced("x", &text).matches(&mark(&text)).count(), 2);
        }
    }
}
