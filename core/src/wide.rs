//! Exact `a × b ÷ c` with a 256-bit product: no input overflows, nothing is rounded twice.

/// ⌊a·b ÷ c⌋, `u128::MAX` when that does not fit. `c` must not be 0.
#[must_use]
pub fn mul_div_floor(a: u128, b: u128, c: u128) -> u128 {
    match a.checked_mul(b) {
        Some(product) => divide(product, c),
        None => wide_mul_div(a, b, c).0,
    }
}

/// ⌈a·b ÷ c⌉, `u128::MAX` when that does not fit. `c` must not be 0.
#[must_use]
pub fn mul_div_ceil(a: u128, b: u128, c: u128) -> u128 {
    match a.checked_mul(b) {
        Some(product) => {
            let quotient = divide(product, c);
            quotient + u128::from(quotient * c != product)
        }
        None => {
            let (quotient, exact) = wide_mul_div(a, b, c);
            quotient.saturating_add(u128::from(!exact))
        }
    }
}

/// Most products fit the machine's own division, which is several times faster.
fn divide(product: u128, c: u128) -> u128 {
    match (u64::try_from(product), u64::try_from(c)) {
        (Ok(product), Ok(c)) => u128::from(product / c),
        _ => product / c,
    }
}

/// The quotient and whether it is exact, by long division bit by bit: rare, so simple.
fn wide_mul_div(a: u128, b: u128, c: u128) -> (u128, bool) {
    let (mut rest, low) = full_mul(a, b);
    if rest >= c {
        return (u128::MAX, false);
    }
    let mut quotient = 0u128;
    for bit in (0..128).rev() {
        let carry = rest >> 127;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carry == 1 || rest >= c {
            rest = rest.wrapping_sub(c);
            quotient |= 1;
        }
    }
    (quotient, rest == 0)
}

/// The 256-bit product as (high, low), from four 64-bit products.
fn full_mul(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let other = a_low * b_high + (middle & LOW);
    (a_high * b_high + (middle >> 64) + (other >> 64), (other << 64) | (low & LOW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_big_integers(
            a in any::<u128>(), b in any::<u128>(), c in 1..=u128::MAX,
            a_shift in 0..128u32, b_shift in 0..128u32, c_shift in 0..128u32,
        ) {
            let (a, b, c) = (a >> a_shift, b >> b_shift, (c >> c_shift).max(1));
            let product = BigUint::from(a) * b;
            let floor = u128::try_from(&product / c).unwrap_or(u128::MAX);
            let ceil = u128::try_from((&product + (c - 1)) / c).unwrap_or(u128::MAX);
            prop_assert_eq!(mul_div_floor(a, b, c), floor);
            prop_assert_eq!(mul_div_ceil(a, b, c), ceil);
        }
    }
}
