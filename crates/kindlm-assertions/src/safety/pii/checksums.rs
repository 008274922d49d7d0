//! The checksums that distinguish an identifier from any number of the same length.

/// Checks digits by the Luhn algorithm (ISO/IEC 7812-1, annex B).
///
/// The algorithm doubles every second digit from the right.
pub(super) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, &digit)| {
            let weighted = u32::from(digit) * if index % 2 == 1 { 2 } else { 1 };
            weighted / 10 + weighted % 10
        })
        .sum();
    !digits.is_empty() && sum.is_multiple_of(10)
}

/// Returns the sum of digits times weights; the weights repeat.
pub(super) fn weighted_sum(digits: &[u8], weights: &[u32]) -> u32 {
    digits
        .iter()
        .zip(weights.iter().cycle())
        .map(|(&digit, weight)| u32::from(digit) * weight)
        .sum()
}

/// Returns the digits in a text, as numbers.
pub(super) fn digits(text: &str) -> Vec<u8> {
    text.bytes().filter(u8::is_ascii_digit).map(|byte| byte - b'0').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn luhn_knows_the_published_examples() {
        for (number, valid) in
            [("79927398713", true), ("79927398710", false), ("0", true), ("", false)]
        {
            assert_eq!(luhn(&digits(number)), valid, "{number}");
        }
    }

    proptest! {
        #[test]
        fn luhn_has_exactly_one_check_digit_and_sees_any_changed_digit(
            mut body in prop::collection::vec(0u8..10, 1..30), at in 0usize..30, by in 1u8..10,
        ) {
            body.push(0);
            let last = body.len() - 1;
            let valid: Vec<u8> = (0..10)
                .filter(|&check| { body[last] = check; luhn(&body) })
                .collect();
            prop_assert_eq!(valid.len(), 1);
            body[last] = valid[0];
            let at = at % body.len();
            body[at] = (body[at] + by) % 10;
            prop_assert!(!luhn(&body));
        }
    }
}
