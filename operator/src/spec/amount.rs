//! Kubernetes quantities as numbers: `500m`, `2Gi`, `1e3`. Read here and not by a crate: those that there are take `Gi` and
//! `--1`, which are no quantities, or refuse `1.5Gi`.

/// A quantity in thousandths, since that is the finest Kubernetes keeps of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    millis: i128,
}

impl Amount {
    /// Reads a quantity. `None` when it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits_end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
        let (number, suffix) = text.split_at(digits_end.unwrap_or(text.len()));
        let (numerator, denominator) = factor(suffix)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let negative = whole.starts_with('-');
        let whole = whole.trim_start_matches(['-', '+']);
        let signs = number.len() - number.trim_start_matches(['-', '+']).len();
        let is_digits = |s: &str| s.chars().all(|c| c.is_ascii_digit());
        if signs > 1
            || !is_digits(whole)
            || !is_digits(fraction)
            || (whole.is_empty() && fraction.is_empty())
            || whole.len() + fraction.len() > 18
        {
            return None;
        }
        let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?) * denominator;
        let scaled = mantissa.checked_mul(numerator)?.checked_mul(1000)?;
        // As Kubernetes does: finer than a thousandth is rounded up.
        let millis = scaled / scale + i128::from(scaled % scale != 0);
        Some(Self {
            millis: if negative { -millis } else { millis },
        })
    }

    /// Whole units, rounded down: bytes of memory, CPUs.
    #[must_use]
    pub fn units(self) -> u64 {
        u64::try_from(self.millis / 1000).unwrap_or(0)
    }

    /// Whether it is more than nothing.
    #[must_use]
    pub fn is_positive(self) -> bool {
        self.millis > 0
    }

    /// Whether it is less than nothing.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.millis < 0
    }
}

/// What a suffix multiplies and divides by.
fn factor(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1));
    let decimal = |power: u32| Some((1000_i128.pow(power), 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "" => decimal(0),
        "k" => decimal(1),
        "M" => decimal(2),
        "G" => decimal(3),
        "T" => decimal(4),
        "P" => decimal(5),
        "E" => decimal(6),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.pow(u32::try_from(exponent.abs()).ok().filter(|e| *e <= 18)?);
            Some(if exponent < 0 { (1, power) } else { (power, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::Amount;

    fn units(text: &str) -> Option<u64> {
        Amount::parse(text).map(Amount::units)
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, bytes) in [
            ("2Gi", 2 << 30),
            ("1.5Gi", 3 << 29),
            ("2048Mi", 2 << 30),
            ("128M", 128_000_000),
            ("1e3", 1000),
            ("1E3", 1000),
            ("2500m", 2),
            (".5Ki", 512),
            ("7", 7),
        ] {
            assert_eq!(units(text), Some(bytes), "{text}");
        }
        assert_eq!(Amount::parse("0.5"), Amount::parse("500m"));
        assert_eq!(Amount::parse("2Gi"), Amount::parse("2048Mi"));
        assert!(Amount::parse("-1").is_some_and(Amount::is_negative));
        assert!(!Amount::parse("0").is_some_and(Amount::is_positive));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in [
            "", "Gi", "banana", "1 Gi", "1Gib", "1.2.3", "--1", "1-", "1e", ".",
        ] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }
}
