//! Half precision (IEEE 754 binary16) on the host: from and to double, which holds every half exactly.

/// Returns the value of a half's bits.
pub(crate) fn to_f64(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Returns the bits of a number of moderate size that a half holds exactly, as inputs are made.
///
/// # Panics
/// If a half does not hold the number.
pub(crate) fn exact(value: f64) -> u16 {
    // Halves that are positive are ordered as their bits are.
    let (mut low, mut high) = (0_u16, 0x7c00_u16);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if to_f64(middle) <= value.abs() {
            low = middle;
        } else {
            high = middle;
        }
    }
    assert!(to_f64(low) == value.abs(), "no half is {value}");
    let bits = low;
    if value < 0.0 { bits | 0x8000 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::{exact, to_f64};

    #[test]
    fn known_values() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_953_125),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x7bff, 65504.0),
        ] {
            assert_eq!(to_f64(bits), value);
            assert_eq!(exact(value), bits);
        }
        assert!(to_f64(0x7c01).is_nan());
    }
}
