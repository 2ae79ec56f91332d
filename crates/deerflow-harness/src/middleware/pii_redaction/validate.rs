//! Check digits and dates. All take plain digits; a wrong length is simply invalid.

/// The digits of an ASCII text as numbers, all else left out.
pub(super) fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

/// The Luhn check of card numbers, for 13 to 19 digits.
pub(super) fn luhn(number: &[u32]) -> bool {
    let sum: u32 = number
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match digit * 2 {
            _ if at % 2 == 0 => *digit,
            double if double > 9 => double - 9,
            double => double,
        })
        .sum();
    (13..=19).contains(&number.len()) && sum.is_multiple_of(10)
}

/// Whether a number begins as payment cards do. Leaves out what identifiers of other kinds begin with: milliseconds since
/// 1970, EAN and ISBN of books (978, 979), years before 2200.
pub(super) fn is_issued(number: &[u32]) -> bool {
    match number {
        [2, second, ..] => (2..=7).contains(second),
        [3..=6, ..] => true,
        // Domestic schemes with 16 digits: Troy, Humo, Uzcard.
        [9, 7, 9, 2, ..] | [9, 8, 6, 0, ..] | [8, 6, 0, 0, ..] => number.len() == 16,
        _ => false,
    }
}

/// A day that exists, in the years 1900 to 2100.
pub(super) fn is_date(year: u32, month: u32, day: u32) -> bool {
    let long = match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1900..=2100).contains(&year) && (1..=long).contains(&day)
}

/// GB 11643: 17 digits with a birthday in them, and a check digit that may be `X`.
pub(super) fn chinese_resident_id(number: &str) -> bool {
    const WEIGHTS: [u32; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    let Some((body, check)) = number.split_at_checked(17) else { return false };
    let body = digits(body);
    let check = match check {
        "X" | "x" => 10,
        digit => match digit.parse() {
            Ok(digit) if digit < 10 => digit,
            _ => return false,
        },
    };
    if body.len() != 17 || body[0] == 0 {
        return false;
    }
    let number = |range: std::ops::Range<usize>| body[range].iter().fold(0, |all, digit| all * 10 + digit);
    // The check makes the weighted sum 1 modulo 11; the check itself weighs 1.
    let sum: u32 = body.iter().zip(WEIGHTS).map(|(digit, weight)| digit * weight).sum();
    is_date(number(6..10), number(10..12), number(12..14)) && (sum + check) % 11 == 1
}

/// CPF of Brazil: 9 digits and two check digits modulo 11, not all equal.
pub(super) fn cpf(number: &[u32]) -> bool {
    if number.len() != 11 || number.iter().all(|digit| *digit == number[0]) {
        return false;
    }
    let check = |count: usize| {
        let sum: u32 =
            number[..count].iter().zip((2..).take(count).collect::<Vec<u32>>().iter().rev()).map(|(d, w)| d * w).sum();
        match sum % 11 {
            0 | 1 => 0,
            rest => 11 - rest,
        }
    };
    check(9) == number[9] && check(10) == number[10]
}

/// The check character of an RFC of Mexico: modulo 11 over twelve places, a company's first one blank.
pub(super) fn rfc_check(rfc: &[char]) -> bool {
    const ALPHABET: &str = "0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ Ñ";
    let Some((check, body)) = rfc.split_last() else { return false };
    let value = |c: &char| ALPHABET.chars().position(|known| known == *c).and_then(|at| u32::try_from(at).ok());
    let padding = (body.len() == 11).then_some(' ');
    let weights = (2..=13u32).rev();
    let Some(values) = padding.iter().chain(body).map(value).collect::<Option<Vec<u32>>>() else { return false };
    if values.len() != 12 {
        return false;
    }
    let sum: u32 = values.iter().zip(weights).map(|(value, weight)| value * weight).sum();
    let wanted = match 11 - sum % 11 {
        11 => '0',
        10 => 'A',
        digit => char::from_digit(digit, 10).unwrap_or('0'),
    };
    *check == wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cards_by_luhn_and_length() {
        for good in ["4111111111111111", "5555555555554444", "378282246310005", "30569309025904", "6011111111111117"] {
            assert!(luhn(&digits(good)) && is_issued(&digits(good)), "{good}");
        }
        for bad in ["4111111111111112", "411111111111", "1234567890123", "41111111111111111111"] {
            assert!(!luhn(&digits(bad)), "{bad}");
        }
        for other in ["0000000000000000", "1764547200004", "9780306406157", "2019202020212026"] {
            assert!(!is_issued(&digits(other)), "{other}");
        }
    }

    #[test]
    fn resident_ids_by_check_digit_and_birthday() {
        for good in ["11010519491231002X", "11010519491231002x", "110105194912310150", "110105197506150239"] {
            assert!(chinese_resident_id(good), "{good}");
        }
        for bad in ["110105194912310020", "110105194913310150", "110105189912310150", "11010519491231002", "X"] {
            assert!(!chinese_resident_id(bad), "{bad}");
        }
    }

    #[test]
    fn cpf_by_both_check_digits() {
        for good in ["52998224725", "11144477735"] {
            assert!(cpf(&digits(good)), "{good}");
        }
        for bad in ["52998224711", "52998224735", "11111111111", "5299822472"] {
            assert!(!cpf(&digits(bad)), "{bad}");
        }
    }

    #[test]
    fn rfc_by_check_character() {
        let check = |text: &str| rfc_check(&text.chars().collect::<Vec<_>>());
        assert!(check("GODE561231GR8"));
        assert!(!check("GODE561231GR9") && !check("") && !check("A"));
    }

    #[test]
    fn dates_exist() {
        assert!(is_date(2024, 2, 29) && is_date(2000, 2, 29) && is_date(2100, 12, 31));
        assert!(!is_date(2023, 2, 29) && !is_date(1900, 2, 29) && !is_date(2026, 13, 1) && !is_date(2026, 4, 31));
        assert!(!is_date(1899, 1, 1) && !is_date(2101, 1, 1) && !is_date(2026, 1, 0));
    }

    proptest! {
        /// Luhn catches every single wrong digit.
        #[test]
        fn one_wrong_digit_is_noticed(mut number in prop::collection::vec(0u32..10, 12..18), at in 0usize..18, by in 1u32..10) {
            number.push(0);
            let last = number.len() - 1;
            for check in 0..10 {
                number[last] = check;
                if luhn(&number) { break; }
            }
            prop_assert!(luhn(&number));
            let at = at % number.len();
            number[at] = (number[at] + by) % 10;
            prop_assert!(!luhn(&number));
        }
    }
}
