// SPDX-License-Identifier: GPL-2.0

//! Values of options: numbers with units, and times.

use std::time::Duration;

/// A whole number of seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number of seconds, 1 or more".to_owned()),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

/// A number, decimal or hexadecimal, that may end in K, M or G.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1_u64),
    };
    let parsed = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    parsed
        .ok()
        .and_then(|count| count.checked_mul(unit))
        .ok_or_else(|| "a number such as 4096, 0x1000 or 4K".to_owned())
}

/// A time such as `90`, `90s`, `10m` or `1h30m`: not nothing, and each unit once, from the largest.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
        .ok_or_else(|| "a time such as 90, 15s, 10m or 1h30m".to_owned())
}

fn parse_duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    for (unit, seconds) in [('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((count, after)) = rest.split_once(unit) {
            total = total.checked_add(digits(count)?.checked_mul(seconds)?)?;
            rest = after;
        }
    }
    match rest {
        "" if !text.is_empty() => Some(total),
        // Without a unit it is seconds, and nothing else may be before them.
        _ if rest == text => digits(rest),
        _ => None,
    }
}

/// A number without a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_units_and_bases() {
        assert_eq!(number("4096"), Ok(4096));
        assert_eq!(number("0x1001"), Ok(4097));
        assert_eq!(number("3M"), Ok(3 << 20));
        for wrong in ["", "K", "-1", "4k", "0x", "99999999999G"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, wanted) in [
            ("15", 15),
            ("15s", 15),
            ("10m", 600),
            ("2h", 7200),
            ("1h30m", 5400),
            ("1h0m5s", 3605),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(wanted)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            "0",
            "0s",
            "s",
            "m",
            "-1",
            "+1",
            "1.5s",
            "5m1h",
            "1m1m",
            "1m30",
            "10 m",
            "99999999999999999h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_is_written(hours in 0_u64..1000, minutes in 0_u64..1000, seconds in 1_u64..1000) {
            let wanted = Duration::from_secs(hours * 3600 + minutes * 60 + seconds);
            prop_assert_eq!(duration(&format!("{hours}h{minutes}m{seconds}s")), Ok(wanted));
            prop_assert_eq!(duration(&wanted.as_secs().to_string()), Ok(wanted));
        }
    }
}
